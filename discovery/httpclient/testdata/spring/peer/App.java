package peer;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.Lock;
import org.apache.curator.framework.CuratorFramework;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.client.loadbalancer.LoadBalanced;
import org.springframework.cloud.zookeeper.serviceregistry.ZookeeperRegistration;
import org.springframework.cloud.zookeeper.serviceregistry.ZookeeperServiceRegistry;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Lazy;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.zookeeper.leader.LeaderInitiator;
import org.springframework.integration.zookeeper.lock.ZookeeperLockRegistry;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;

/** An application of Spring Cloud ZooKeeper that registers, calls services, and uses Spring Integration's lock and leader. */
@SpringBootApplication
@RestController
public class App {
    public static void main(String[] args) {
        SpringApplication.run(App.class, args);
        System.out.println("STARTED");
    }

    private final RestClient.Builder calls;
    private final ZookeeperLockRegistry locks;
    private final LeaderInitiator leader;
    private final ZookeeperServiceRegistry registry;
    private final ZookeeperRegistration registration;

    App(@Lazy @LoadBalanced RestClient.Builder calls, @Lazy ZookeeperLockRegistry locks, @Lazy LeaderInitiator leader,
            @Lazy ZookeeperServiceRegistry registry, @Lazy ZookeeperRegistration registration) {
        this.calls = calls;
        this.locks = locks;
        this.leader = leader;
        this.registry = registry;
        this.registration = registration;
    }

    @Bean
    @LoadBalanced
    static RestClient.Builder calls() {
        return RestClient.builder();
    }

    @Bean
    static ZookeeperLockRegistry locks(CuratorFramework client) {
        return new ZookeeperLockRegistry(client, "/spring-locks");
    }

    @Bean
    static LeaderInitiator leader(CuratorFramework client) {
        return new LeaderInitiator(client, new DefaultCandidate("spring", "role"));
    }

    @GetMapping("/hello")
    String hello() {
        return "spring";
    }

    /** Calls another service, and returns its last answer, and how many calls failed. */
    @GetMapping("/call")
    String call(@RequestParam String name, @RequestParam int times) {
        String last = "";
        int failed = 0;
        for (int n = 0; n < times; n++) {
            try {
                last = calls.build().get().uri("http://" + name + "/hello").retrieve().body(String.class);
            } catch (RuntimeException e) {
                last = e.toString();
                failed++;
            }
        }
        return last + " " + failed;
    }

    @GetMapping("/status")
    String status(@RequestParam String to) {
        registry.setStatus(registration, to);
        return to;
    }

    /** Increments the number in a file under a lock. */
    @GetMapping("/increment")
    String increment(@RequestParam String file, @RequestParam int times) throws Exception {
        Lock lock = locks.obtain("key");
        for (int n = 0; n < times; n++) {
            lock.lock();
            try {
                Path path = Path.of(file);
                Files.writeString(path, String.valueOf(Long.parseLong(Files.readString(path)) + 1));
            } finally {
                lock.unlock();
            }
        }
        return "ok";
    }

    @GetMapping("/leads")
    String leads() {
        return String.valueOf(leader.getContext().isLeader());
    }
}
