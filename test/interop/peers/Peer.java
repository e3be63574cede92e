import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
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
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** One of Curator's recipes, used as a service would; what happens is printed, a line each. */
public class Peer {
    static CuratorFramework client;

    public static void main(String[] args) throws Exception {
        // The addresses that the servers name are those of their containers' network, so no tracker of them.
        client = CuratorFrameworkFactory.builder().connectString(args[0]).sessionTimeoutMs(10_000).connectionTimeoutMs(10_000)
            .retryPolicy(new ExponentialBackoffRetry(100, 10)).ensembleTracker(false).build();
        client.start();
        client.blockUntilConnected();
        say("session " + Long.toUnsignedString(sessionId(), 16));
        String[] rest = Arrays.copyOfRange(args, 2, args.length);
        switch (args[1]) {
            case "mutex": mutex(rest[0], rest[1], Integer.parseInt(rest[2]), false); break;
            case "reentrant": mutex(rest[0], rest[1], Integer.parseInt(rest[2]), true); break;
            case "rwlock": readWrite(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "semaphore": semaphore(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3]), null); break;
            case "shared": semaphore(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3]), rest[4]); break;
            case "atomic": atomic(rest[0], Integer.parseInt(rest[1])); break;
            case "count": count(rest[0], Integer.parseInt(rest[1])); break;
            case "double": doubleBarrier(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3])); break;
            case "member": member(rest[0], rest[1], rest[2], Integer.parseInt(rest[3])); break;
            case "barrier": barrier(rest[0], rest[1]); break;
            case "hold": hold(rest[0]); break;
            case "revoke": Revoker.attemptRevoke(client, rest[0]); break;
            case "participants":
                for (String node : new InterProcessMutex(client, rest[0]).getParticipantNodes()) {
                    say("participant " + node);
                }
                break;
            case "latch": latch(rest[0], rest[1], rest[2]); break;
            case "selector": selector(rest[0], rest[1], rest[2]); break;
            case "leads": leads(rest[0], rest[1]); break;
            case "election": election(rest[0], rest[1]); break;
            case "group": group(rest[0], rest[1], rest[2], rest[3]); break;
            case "keep": keep(rest[0], rest[1], rest[2]); break;
            case "compressed": compressed(rest[0]); break;
            case "tree": tree(rest[0], Integer.parseInt(rest[1]), rest[2]); break;
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

    static void mutex(String path, String counter, int rounds, boolean reenter) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        for (int i = 0; i < rounds; i++) {
            mutex.acquire();
            try {
                if (reenter) { // the inner release keeps the lock
                    mutex.acquire();
                    mutex.release();
                }
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

    static void atomic(String path, int rounds) throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(client, path, new ExponentialBackoffRetry(1, 20),
            PromotedToLock.builder().lockPath(path + "-mutex").retryPolicy(new ExponentialBackoffRetry(1, 20)).build());
        long last = 0;
        for (int i = 0; i < rounds; ) {
            AtomicValue<Long> value = number.increment();
            if (value.succeeded()) {
                i++;
                if (value.postValue() <= last) {
                    say("violation: " + value.postValue() + " after " + last);
                }
                last = value.postValue();
            }
        }
    }

    static void count(String path, int rounds) throws Exception {
        SharedCount count = new SharedCount(client, path, 0);
        count.start();
        for (int i = 0; i < rounds; ) {
            VersionedValue<Integer> value = count.getVersionedValue();
            if (count.trySetCount(value, value.getValue() + 1)) {
                i++;
            }
        }
        count.close();
    }

    /**
     * In each round all leave marks, and then enter: whoever is inside sees the marks of all. A second
     * mark of each says that all have entered, before one leaves.
     */
    static void doubleBarrier(String path, String marks, int members, int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path + "/" + i, members);
            client.create().forPath(marks + "/" + i + "-" + UUID.randomUUID());
            barrier.enter();
            long came = marked(marks, i + "-");
            if (came != members) {
                say("violation: " + came + " have come");
            }
            client.create().forPath(marks + "/in-" + i + "-" + UUID.randomUUID());
            while (marked(marks, "in-" + i + "-") < members) {
                Thread.sleep(1);
            }
            barrier.leave();
        }
    }

    static long marked(String path, String prefix) throws Exception {
        client.sync().forPath(path);
        return client.getChildren().forPath(path).stream().filter(name -> name.startsWith(prefix)).count();
    }

    /** Does what lines say: "enter ROUND" and "leave". members_test.go has the same for us. */
    static void member(String path, String marks, String name, int members) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        DistributedDoubleBarrier barrier = null;
        say("ready");
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("enter")) {
                    String round = words[1];
                    try {
                        client.create().forPath(marks + "/" + round + "-" + name);
                    } catch (KeeperException.NodeExistsException e) { // of a try before
                    }
                    barrier = new DistributedDoubleBarrier(client, path + "/" + round, members);
                    say("session " + Long.toUnsignedString(sessionId(), 16));
                    barrier.enter();
                    say("inside " + marked(marks, round + "-"));
                } else {
                    barrier.leave();
                    say("through");
                }
            } catch (Exception e) {
                say("failed " + e);
            }
        }
    }

    /** Waits for us, then has us wait. */
    static void barrier(String ours, String theirs) throws Exception {
        new DistributedBarrier(client, theirs).setBarrier();
        say("waiting");
        new DistributedBarrier(client, ours).waitOnBarrier();
        say("passed");
        new DistributedBarrier(client, theirs).removeBarrier();
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

    /** Leads again and again until there is a node "over", and prints each term when it has ended. */
    static void latch(String path, String id, String over) throws Exception {
        while (client.checkExists().forPath(over) == null) {
            Terms terms = new Terms();
            LeaderLatch latch = new LeaderLatch(client, path, id);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    terms.begin();
                }

                @Override
                public void notLeader() {
                    terms.end();
                }
            });
            latch.start();
            latch.await();
            terms.work();
            terms.end();
            latch.close();
        }
    }

    static void selector(String path, String id, String over) throws Exception {
        Terms terms = new Terms();
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                terms.begin();
                try {
                    terms.work();
                } finally {
                    terms.end();
                }
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
                if (client.getConnectionStateErrorPolicy().isErrorState(state)) {
                    terms.end();
                }
                super.stateChanged(client, state);
            }
        });
        selector.setId(id);
        selector.autoRequeue();
        selector.start();
        while (client.checkExists().forPath(over) == null) {
            Thread.sleep(100);
        }
        selector.close();
    }

    /** The terms of a candidate, one at a time. nanoTime is CLOCK_MONOTONIC, which is the same in all containers. */
    static class Terms {
        private long from;
        private long session;

        synchronized void begin() {
            session = sessionId();
            from = System.nanoTime();
        }

        synchronized void end() {
            if (from != 0) {
                say("term " + from + " " + System.nanoTime() + " " + Long.toUnsignedString(session, 16));
            }
            from = 0;
        }

        void work() throws InterruptedException {
            Thread.sleep(ThreadLocalRandom.current().nextInt(20));
        }
    }

    static long sessionId() {
        try {
            return client.getZookeeperClient().getZooKeeper().getSessionId();
        } catch (Exception e) {
            return 0; // not connected
        }
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

    /** A member until there is a node "over". Prints the members whenever there are others. */
    static void group(String path, String id, String payload, String over) throws Exception {
        GroupMember member = new GroupMember(client, path, id, payload.getBytes(StandardCharsets.UTF_8));
        member.start();
        String printed = "";
        while (client.checkExists().forPath(over) == null) {
            Map<String, byte[]> members = member.getCurrentMembers();
            StringBuilder list = new StringBuilder();
            for (Map.Entry<String, byte[]> m : new TreeMap<>(members).entrySet()) {
                list.append(m.getKey()).append('=').append(new String(m.getValue(), StandardCharsets.UTF_8)).append(';');
            }
            if (!list.toString().equals(printed)) {
                printed = list.toString();
                say("members " + printed);
            }
            if (client.checkExists().forPath(over + "-change") != null) {
                member.setThisData("changed".getBytes(StandardCharsets.UTF_8));
            }
            Thread.sleep(50);
        }
        member.close();
    }

    /** Keeps a node of each kind until there is a node "over". */
    static void keep(String path, String data, String over) throws Exception {
        List<PersistentNode> nodes = new ArrayList<>();
        for (CreateMode mode : new CreateMode[] {CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT}) {
            for (boolean isProtected : new boolean[] {false, true}) {
                String name = path + "/" + mode.toString().toLowerCase().replace('_', '-') + (isProtected ? "-protected" : "") + "-";
                PersistentNode node = new PersistentNode(client, mode, isProtected, name, data.getBytes(StandardCharsets.UTF_8));
                node.start();
                if (!node.waitForInitialCreate(1, TimeUnit.MINUTES)) {
                    throw new IllegalStateException(name);
                }
                say("kept " + node.getActualPath());
                nodes.add(node);
            }
        }
        PersistentTtlNode ttl = new PersistentTtlNode(client, path + "/ttl-", 2_000, data.getBytes(StandardCharsets.UTF_8));
        ttl.start();
        ttl.waitForInitialCreate(1, TimeUnit.MINUTES);
        say("kept " + path + "/ttl-");
        while (client.checkExists().forPath(over) == null) {
            Thread.sleep(50);
        }
        for (PersistentNode node : nodes) {
            node.close();
        }
        ttl.close();
    }

    /** Changes a tree at random, and prints what its cache shows whenever that is something else. */
    static void tree(String path, int changes, String over) throws Exception {
        CuratorCache cache = CuratorCache.build(client, path);
        cache.start();
        String printed = "";
        for (int i = 0; client.checkExists().forPath(over) == null; i++) {
            if (i < changes) {
                change(path + "/" + ThreadLocalRandom.current().nextInt(10), "java " + i);
                continue;
            }
            if (i == changes) {
                say("changed");
            }
            String shown = cache.stream().map(Peer::show).sorted().collect(Collectors.joining(" "));
            if (!shown.equals(printed)) {
                printed = shown;
                say("tree " + shown);
            }
            Thread.sleep(100);
        }
        cache.close();
    }

    static void change(String node, String data) throws Exception {
        try {
            switch (ThreadLocalRandom.current().nextInt(3)) {
                case 0: client.create().creatingParentsIfNeeded().forPath(node, data.getBytes(StandardCharsets.UTF_8)); break;
                case 1: client.setData().forPath(node, data.getBytes(StandardCharsets.UTF_8)); break;
                default: client.delete().forPath(node);
            }
        } catch (KeeperException e) { // it was there, or it was not, or it has children
        }
    }

    static String show(ChildData node) {
        Stat stat = node.getStat();
        String data = Base64.getEncoder().encodeToString(node.getData() == null ? new byte[0] : node.getData());
        return String.join("|", node.getPath(), "" + stat.getCzxid(), "" + stat.getMzxid(), "" + stat.getVersion(), data);
    }

    /** Each node is copied to one beside it, both compressed. */
    static void compressed(String path) throws Exception {
        for (String name : client.getChildren().forPath(path)) {
            try {
                byte[] data = client.getData().decompressed().forPath(path + "/" + name);
                client.create().compressed().forPath(path + "/" + name + "-java", data);
            } catch (java.io.IOException e) {
                say("refused " + name);
            }
        }
    }
}
