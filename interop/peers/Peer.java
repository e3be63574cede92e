import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/** One of Curator's recipes, used as a service would; what happens is printed, a line each. */
public class Peer {
    static CuratorFramework client;

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new ExponentialBackoffRetry(100, 10));
        client.start();
        client.blockUntilConnected();
        say("session " + Long.toUnsignedString(client.getZookeeperClient().getZooKeeper().getSessionId(), 16));
        String[] rest = Arrays.copyOfRange(args, 2, args.length);
        switch (args[1]) {
            case "mutex": mutex(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "rwlock": readWrite(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "semaphore": semaphore(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3]), null); break;
            case "shared": semaphore(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3]), rest[4]); break;
            case "hold": hold(rest[0]); break;
            case "revoke": Revoker.attemptRevoke(client, rest[0]); break;
            case "participants":
                for (String node : new InterProcessMutex(client, rest[0]).getParticipantNodes()) {
                    say("participant " + node);
                }
                break;
            case "latch": latch(rest[0], rest[1], rest[2], Integer.parseInt(rest[3])); break;
            case "selector": selector(rest[0], rest[1], rest[2], Integer.parseInt(rest[3])); break;
            case "leads": leads(rest[0], rest[1]); break;
            case "election": election(rest[0], rest[1]); break;
            default: throw new IllegalArgumentException(args[1]);
        }
        say("done");
        client.close();
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static int read(String counter) throws Exception {
        return Integer.parseInt(new String(client.getData().forPath(counter), StandardCharsets.UTF_8));
    }

    /** Not atomic, on purpose. */
    static void increment(String counter) throws Exception {
        int n = read(counter);
        Thread.sleep(ThreadLocalRandom.current().nextInt(2));
        client.setData().forPath(counter, Integer.toString(n + 1).getBytes(StandardCharsets.UTF_8));
    }

    static void mutex(String path, String counter, int rounds) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        for (int i = 0; i < rounds; i++) {
            mutex.acquire();
            try {
                increment(counter);
            } finally {
                mutex.release();
            }
        }
    }

    static void readWrite(String path, String counter, int rounds) throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
        for (int i = 0; i < rounds; i++) {
            InterProcessLock side = i % 3 == 0 ? lock.writeLock() : lock.readLock();
            side.acquire();
            try {
                if (i % 3 == 0) {
                    increment(counter);
                } else {
                    int before = read(counter);
                    Thread.sleep(ThreadLocalRandom.current().nextInt(2));
                    client.sync().forPath(counter);
                    int after = read(counter);
                    if (before != after) {
                        say("violation: a reader saw " + before + " and then " + after);
                    }
                }
            } finally {
                side.release();
            }
        }
    }

    static void semaphore(String path, String marks, int rounds, int max, String count) throws Exception {
        InterProcessSemaphoreV2 semaphore;
        if (count == null) {
            semaphore = new InterProcessSemaphoreV2(client, path, max);
        } else {
            SharedCount shared = new SharedCount(client, count, 1);
            shared.start();
            semaphore = new InterProcessSemaphoreV2(client, path, shared);
        }
        for (int i = 0; i < rounds; i++) {
            Lease lease = semaphore.acquire();
            try {
                String mark = client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(marks + "/mark-");
                int marked = client.getChildren().forPath(marks).size();
                if (marked > max) {
                    say("violation: " + marked + " hold");
                }
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
                client.delete().guaranteed().forPath(mark);
            } finally {
                semaphore.returnLease(lease);
            }
        }
    }

    /** Holds until somebody revokes. */
    static void hold(String path) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        CountDownLatch revoked = new CountDownLatch(1);
        mutex.makeRevocable(which -> revoked.countDown());
        mutex.acquire();
        say("held");
        revoked.await();
        say("revoked");
        mutex.release();
    }

    static void latch(String path, String id, String counter, int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            try (LeaderLatch latch = new LeaderLatch(client, path, id)) {
                latch.start();
                latch.await();
                increment(counter);
            }
        }
    }

    static void selector(String path, String id, String counter, int rounds) throws Exception {
        CountDownLatch terms = new CountDownLatch(rounds);
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                if (terms.getCount() > 0) {
                    increment(counter);
                    terms.countDown();
                }
            }
        });
        selector.setId(id);
        selector.autoRequeue();
        selector.start();
        terms.await();
        selector.close();
    }

    /** Leads until its leadership ends. */
    static void leads(String path, String id) throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        LeaderLatch latch = new LeaderLatch(client, path, id);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                say("leads");
            }

            @Override
            public void notLeader() {
                say("ended");
                ended.countDown();
            }
        });
        latch.start();
        ended.await();
        latch.close();
    }

    /** Takes no part. */
    static void election(String kind, String path) throws Exception {
        Collection<Participant> all;
        Participant leader;
        if (kind.equals("latch")) {
            LeaderLatch latch = new LeaderLatch(client, path);
            all = latch.getParticipants();
            leader = latch.getLeader();
        } else {
            LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {}
            });
            all = selector.getParticipants();
            leader = selector.getLeader();
        }
        for (Participant p : all) {
            say("participant " + p.getId() + " " + p.isLeader());
        }
        say("leader " + leader.getId() + " " + leader.isLeader());
    }
}
