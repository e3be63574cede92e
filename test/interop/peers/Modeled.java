import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.async.AsyncCuratorFramework;
import org.apache.curator.x.async.api.CreateOption;
import org.apache.curator.x.async.modeled.JacksonModelSerializer;
import org.apache.curator.x.async.modeled.ModelSpec;
import org.apache.curator.x.async.modeled.ModeledFramework;
import org.apache.curator.x.async.modeled.ZNode;
import org.apache.curator.x.async.modeled.ZPath;
import org.apache.curator.x.async.modeled.cached.CachedModeledFramework;
import org.apache.curator.x.async.modeled.versioned.Versioned;
import org.apache.zookeeper.KeeperException;

/** Curator's ModeledFramework. Below a base it writes accounts, and prints all accounts whenever they are others. */
public class Modeled {
    /** The model. Go has one of the same fields. */
    public static class Account {
        public String owner;
        public long balance;
        public double rate;
        public byte[] key;
        public List<String> tags;
        public Map<String, Integer> limits;
        public String note;

        public Account() {}

        Account(String owner, long balance) {
            this.owner = owner;
            this.balance = balance;
            rate = 2;
            key = new byte[] {1, 2, -1};
            tags = Collections.singletonList("<a href=\"x\">&'\u2028\u0001/é\uD83D\uDE00");
            limits = new LinkedHashMap<>(Collections.singletonMap("day", 100));
        }
    }

    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(args[0]).sessionTimeoutMs(10_000).connectionTimeoutMs(10_000)
            .retryPolicy(new ExponentialBackoffRetry(100, 10)).ensembleTracker(false).build();
        client.start();
        client.blockUntilConnected();
        AsyncCuratorFramework async = AsyncCuratorFramework.wrap(client);
        String base = args[1];
        int rounds = Integer.parseInt(args[2]);
        ModeledFramework<Account> accounts = ModeledFramework.wrap(async, spec(base, ModelSpec.defaultCreateOptions));
        Set<CreateOption> compress = new HashSet<>(ModelSpec.defaultCreateOptions);
        compress.add(CreateOption.compress);
        ModeledFramework<Account> zipped = ModeledFramework.wrap(async, spec(base + "-zipped", compress));

        get(accounts.child("java").set(new Account("Java", 10)));
        get(zipped.child("java").set(new Account("Java", 20)));
        CachedModeledFramework<Account> cached = accounts.cached();
        cached.start();
        say("zipped " + JSON.writeValueAsString(get(zipped.child("go").read())));

        // Both add to one account; each takes the version that it has read.
        for (int i = 0; i < rounds; ) {
            Versioned<Account> read = get(accounts.child("both").versioned().read());
            read.model().balance++;
            try {
                get(accounts.child("both").versioned().update(read));
                i++;
            } catch (KeeperException.BadVersionException e) {
                // the other side was faster
            }
        }
        say("added");

        String shown = "";
        boolean deleted = false;
        while (client.checkExists().forPath(base + "-over") == null) {
            if (!deleted && client.checkExists().forPath(base + "-delete") != null) {
                deleted = true;
                get(accounts.child("java").delete());
            }
            String queried = show(get(accounts.childrenAsZNodes()));
            if (queried.equals(show(get(cached.childrenAsZNodes()))) && !queried.equals(shown)) {
                shown = queried;
                say("shows " + shown);
            }
            Thread.sleep(50);
        }
        cached.close();
        say("done");
        client.close();
    }

    static ModelSpec<Account> spec(String path, Set<CreateOption> options) {
        return ModelSpec.builder(ZPath.parse(path), JacksonModelSerializer.build(Account.class)).withCreateOptions(options).build();
    }

    /** Waits for a result, and throws what the servers have answered. */
    static <T> T get(CompletionStage<T> stage) throws Exception {
        try {
            return stage.toCompletableFuture().get();
        } catch (java.util.concurrent.ExecutionException e) {
            if (e.getCause() instanceof Exception) {
                throw (Exception) e.getCause();
            }
            throw e;
        }
    }

    static String show(List<ZNode<Account>> nodes) throws Exception {
        List<String> lines = new ArrayList<>();
        for (ZNode<Account> node : nodes) {
            lines.add(node.path().nodeName() + "|" + JSON.writeValueAsString(node.model()) + "|" + node.stat().getVersion());
        }
        Collections.sort(lines);
        return String.join(" ; ", lines);
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
