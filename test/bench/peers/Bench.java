import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/** Curator's recipes, driven as bench drives ours. */
public class Bench {
    interface Release { void release() throws Exception; }
    /** null: it has given up. */
    interface Contender { Release acquire(int n) throws Exception; }

    static String servers, kind;
    static int leases;

    public static void main(String[] args) throws Exception {
        servers = args[0];
        kind = args[2];
        int locks = Integer.parseInt(args[3]), waiters = Integer.parseInt(args[4]);
        boolean each = Boolean.parseBoolean(args[5]), hold = Boolean.parseBoolean(args[6]);
        leases = Integer.parseInt(args[7]);
        List<Contender> contenders = new ArrayList<>();
        CuratorFramework client = null;
        for (int i = 0; i < locks * waiters; i++) {
            if (client == null || each) client = connect();
            contenders.add(contender(client, args[1] + "-" + i / waiters));
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) turn(contenders, locks, waiters, hold, Long.parseLong(line.trim()));
        Runtime.getRuntime().halt(0); // sessions end with their connections' clients soon enough
    }

    static CuratorFramework connect() throws Exception {
        // With the tracker it would leave the servers that it is given: the proxy, or one of several.
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(servers).sessionTimeoutMs(20_000)
            .connectionTimeoutMs(20_000).retryPolicy(new ExponentialBackoffRetry(100, 10)).ensembleTracker(false).build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static Contender contender(CuratorFramework client, String path) {
        switch (kind) {
            case "semaphore": {
                InterProcessSemaphoreV2 s = new InterProcessSemaphoreV2(client, path, leases);
                return n -> { Lease l = s.acquire(); return () -> s.returnLease(l); };
            }
            case "read": return plain(new InterProcessReadWriteLock(client, path).readLock());
            case "write": return plain(new InterProcessReadWriteLock(client, path).writeLock());
            case "mostread": {
                InterProcessReadWriteLock l = new InterProcessReadWriteLock(client, path);
                Contender read = plain(l.readLock()), write = plain(l.writeLock());
                return n -> n % 10 == 9 ? write.acquire(n) : read.acquire(n);
            }
            // The policies are those of its example and of its own test with a mutex.
            case "counter": return counter(new DistributedAtomicLong(client, path, new RetryNTimes(10, 10)));
            case "turns": {
                ExponentialBackoffRetry policy = new ExponentialBackoffRetry(3, 3);
                return counter(new DistributedAtomicLong(client, path, policy,
                    PromotedToLock.builder().lockPath(path + "-mutex").retryPolicy(policy).build()));
            }
            default: return plain(new InterProcessMutex(client, path));
        }
    }

    static Contender plain(InterProcessLock l) {
        return n -> { l.acquire(); return l::release; };
    }

    static Contender counter(DistributedAtomicLong number) {
        return n -> number.increment().succeeded() ? () -> {} : null;
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static void turn(List<Contender> contenders, int locks, int waiters, boolean hold, long millis) throws Exception {
        long cpu = cpu(), began = System.nanoTime(), end = began + millis * 1_000_000;
        AtomicInteger cycles = new AtomicInteger(), givenUp = new AtomicInteger();
        AtomicLong[] last = new AtomicLong[locks];
        for (int i = 0; i < locks; i++) last[i] = new AtomicLong();
        List<Long> handOffs = Collections.synchronizedList(new ArrayList<>());
        List<Throwable> failed = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < contenders.size(); i++) {
            Contender c = contenders.get(i);
            AtomicLong released = last[i / waiters];
            Thread t = new Thread(() -> {
                try {
                    for (int n = 0; System.nanoTime() < end; n++) {
                        Release release = c.acquire(n);
                        if (release == null) {
                            givenUp.incrementAndGet();
                            continue;
                        }
                        long now = System.nanoTime(), before = released.get();
                        if (hold && before != 0 && now < end) handOffs.add(now - before);
                        if (hold && now < end) {
                            long pause = 2_000_000 + ThreadLocalRandom.current().nextLong(3_000_000);
                            Thread.sleep(pause / 1_000_000, (int) (pause % 1_000_000));
                        }
                        released.set(System.nanoTime());
                        release.release();
                        cycles.incrementAndGet();
                    }
                } catch (Throwable e) {
                    failed.add(e);
                }
            });
            t.start();
            threads.add(t);
        }
        for (Thread t : threads) t.join();
        if (!failed.isEmpty()) throw new Exception(failed.get(0));
        StringBuilder line = new StringBuilder().append(cycles.get()).append(' ').append(System.nanoTime() - began).append(' ').append(cpu() - cpu)
            .append(' ').append(givenUp.get());
        for (long l : handOffs) line.append(' ').append(l);
        System.out.println(line);
        System.out.flush();
    }
}
