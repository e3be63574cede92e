import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's LeaderLatch; electionpeer.go says which lines it answers, and does the same with ours. */
public class Elections {
    static CuratorFramework client;
    static LeaderLatch latch;
    static CompletableFuture<Long> began;

    public static void main(String[] args) throws Exception {
        int timeout = Integer.parseInt(args[1]);
        client = CuratorFrameworkFactory.builder().connectString(args[0]).sessionTimeoutMs(timeout).connectionTimeoutMs(timeout)
            .retryPolicy(new ExponentialBackoffRetry(100, 10)).ensembleTracker(false).build();
        client.start();
        client.blockUntilConnected();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(answer(line.trim().split(" ")));
            System.out.flush();
        }
        client.close();
        Runtime.getRuntime().halt(0);
    }

    static long answer(String[] words) throws Exception {
        switch (words[0]) {
            case "join": return join(words[1]);
            case "lead": return began.get();
            case "resign": {
                long now = now();
                latch.close();
                return now;
            }
            case "session": return client.getZookeeperClient().getZooKeeper().getSessionTimeout() * 1_000_000L;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static long join(String path) throws Exception {
        String id = UUID.randomUUID().toString();
        LeaderLatch joined = new LeaderLatch(client, path, id);
        CompletableFuture<Long> leads = new CompletableFuture<>();
        latch = joined;
        began = leads;
        latch.start();
        new Thread(() -> {
            try {
                joined.await();
                leads.complete(now());
            } catch (Throwable e) {
                leads.completeExceptionally(e);
            }
        }).start();
        while (!leads.isDone() && !contains(joined, id)) Thread.sleep(10);
        return 0;
    }

    static boolean contains(LeaderLatch latch, String id) throws Exception {
        for (Participant p : latch.getParticipants()) {
            if (p.getId().equals(id)) return true;
        }
        return false;
    }

    static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano();
    }
}
