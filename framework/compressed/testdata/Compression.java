import java.util.Scanner;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;

/** Recipes of a client with enableCompression(): one command a line, one answer a line. */
public class Compression {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(args[0]).retryPolicy(new RetryOneTime(100))
            .enableCompression().build();
        client.start();
        InterProcessMutex mutex = new InterProcessMutex(client, "/lock");
        SharedCount count = new SharedCount(client, "/count", 0);
        count.start();
        DistributedAtomicLong number = new DistributedAtomicLong(client, "/long", new RetryOneTime(100));
        ServiceDiscovery<String> services = ServiceDiscoveryBuilder.builder(String.class).client(client).basePath("/services").build();
        services.start();
        System.out.println("STARTED");
        for (Scanner in = new Scanner(System.in); in.hasNextLine(); ) {
            try {
                System.out.println("ANSWER " + answer(in.nextLine().split(" "), client, mutex, count, number, services));
            } catch (Exception e) {
                System.out.println("ANSWER failed: " + e);
            }
        }
        System.exit(0);
    }

    static Object answer(String[] command, CuratorFramework client, InterProcessMutex mutex, SharedCount count, DistributedAtomicLong number,
            ServiceDiscovery<String> services) throws Exception {
        switch (command[0]) {
            case "acquire":
                mutex.acquire();
                return "ok";
            case "release":
                mutex.release();
                return "ok";
            case "count":
                int seen = count.getVersionedValue().getValue();
                count.setCount(Integer.parseInt(command[1]));
                return seen;
            case "long":
                return number.increment().postValue();
            case "get":
                return new String(client.getData().forPath(command[1]));
            case "create":
                return client.create().forPath(command[1], command[2].getBytes());
            case "register":
                services.registerService(ServiceInstance.<String>builder().name("java").id("1").address("h").port(1).payload("p").build());
                return "ok";
            default: // query
                return services.queryForInstances(command[1]).iterator().next().getAddress();
        }
    }
}
