import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.ref.WeakReference;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;

/** Curator's cache; cachepeer.go says which lines it answers, and does the same with ours. */
public class Caches {
    static CuratorFramework client;
    static CuratorCache cache;
    static ServiceDiscovery<Object> discovery;
    static final List<ServiceCache<Object>> watches = new ArrayList<>();
    static CountDownLatch ended;
    static final List<Long> delays = Collections.synchronizedList(new ArrayList<>());

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], 20_000, 20_000, new ExponentialBackoffRetry(100, 10));
        client.start();
        client.blockUntilConnected();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(answer(line.trim().split(" ")));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "load": return load(words[1]);
            case "services": return services(words[1]);
            case "resident": return "" + resident();
            case "register": return register(words[1], Integer.parseInt(words[2]));
            case "follow": follow(words[1]); return "0";
            case "delays": return delays();
            case "close": close(); return "0";
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static String load(String path) throws Exception {
        close();
        long before = heap();
        long began = System.nanoTime();
        cache = CuratorCache.build(client, path);
        CountDownLatch loaded = new CountDownLatch(1);
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(loaded::countDown).build());
        cache.start();
        loaded.await();
        long took = System.nanoTime() - began;
        return took + " " + (heap() - before) + " " + cache.size();
    }

    static String services(String base) throws Exception {
        close();
        long before = heap();
        int threads = Thread.getAllStackTraces().size();
        long began = System.nanoTime();
        discovery = ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath(base).build();
        discovery.start();
        long instances = 0;
        for (String name : discovery.queryForNames()) {
            ServiceCache<Object> watch = discovery.serviceCacheBuilder().name(name).build();
            watch.start();
            watches.add(watch);
            instances += watch.getInstances().size();
        }
        long took = System.nanoTime() - began;
        return took + " " + (heap() - before) + " " + instances + " 0 " + (Thread.getAllStackTraces().size() - threads);
    }

    /** What the kernel counts: pages of 4096 bytes. */
    static long resident() throws Exception {
        return 4096 * Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]);
    }

    static String register(String base, int n) throws Exception {
        discovery = ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath(base).build();
        discovery.start();
        for (int i = 0; i < n; i++) {
            discovery.registerService(builder().name("service").id("" + i).address("10.0.0.1").port(8080).build());
        }
        return "0";
    }

    /** Curator reads the flags of every network interface here. That fails if an interface vanishes, as a stopped container's does. */
    static ServiceInstanceBuilder<Object> builder() throws Exception {
        for (;;) {
            try {
                return ServiceInstance.builder();
            } catch (SocketException e) {
                if (!String.valueOf(e.getMessage()).contains("No such device")) throw e;
            }
        }
    }

    static void follow(String end) {
        CountDownLatch latch = new CountDownLatch(1);
        ended = latch;
        delays.clear();
        cache.listenable().addListener(CuratorCacheListener.builder().forChanges((old, node) -> {
            Instant instant = Instant.now();
            String text = new String(node.getData(), StandardCharsets.UTF_8).trim();
            if (text.equals(end)) {
                latch.countDown();
            } else if (latch.getCount() > 0 && !text.isEmpty()) {
                delays.add(instant.getEpochSecond() * 1_000_000_000 + instant.getNano() - Long.parseLong(text));
            }
        }).build());
    }

    static String delays() throws Exception {
        ended.await();
        StringBuilder line = new StringBuilder();
        synchronized (delays) {
            for (long delay : delays) line.append(delay).append(' ');
        }
        return line.toString();
    }

    /** Removing a cache's watch goes on after close() and keeps the cache in memory; a load must not begin before its end. */
    static void close() throws Exception {
        for (ServiceCache<Object> watch : watches) watch.close();
        watches.clear();
        if (discovery != null) discovery.close();
        discovery = null;
        if (cache == null) return;
        cache.close();
        WeakReference<CuratorCache> gone = new WeakReference<>(cache);
        cache = null;
        for (int i = 0; gone.get() != null; i++) {
            if (i == 1_000) throw new IllegalStateException("a closed cache stays in memory");
            System.gc();
            Thread.sleep(10);
        }
    }

    /** What is used when it does not change any more: for a while after a load the client still drops what it needed. */
    static long heap() throws Exception {
        for (long last = 0; ; ) {
            System.gc();
            Thread.sleep(100);
            System.gc();
            long used = Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
            if (Math.abs(used - last) < 100_000) return used;
            last = used;
        }
    }
}
