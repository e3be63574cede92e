import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/** Curator's service discovery. Below a base it registers an instance of each kind, and prints all instances whenever they are others. */
public class Discovery {
    /** The payload that is an object. */
    public static class Load {
        public String k;
        public int n;
        public List<String> l;
        public Map<String, String> m;

        public Load() {}

        Load(String k) {
            this.k = k;
            n = 3;
            l = Arrays.asList("a", "b");
            m = Collections.singletonMap("x", "y");
        }
    }

    static final String[] KINDS = {"none", "text", "object", "map", "disabled", "own/instances"};

    public static void main(String[] args) throws Exception {
        Thread.currentThread().setContextClassLoader(Discovery.class.getClassLoader()); // which knows Load; all threads get it
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(args[0]).sessionTimeoutMs(10_000).connectionTimeoutMs(10_000)
            .retryPolicy(new ExponentialBackoffRetry(100, 10)).ensembleTracker(false).build();
        client.start();
        client.blockUntilConnected();
        say("session " + Long.toUnsignedString(client.getZookeeperClient().getZooKeeper().getSessionId(), 16));
        String base = args[1];
        ServiceDiscovery<Object> discovery = discovery(client, base, true);
        ServiceDiscovery<Object> withEnabled = discovery(client, base, false);

        ServiceInstance<Object> text = instance("text", "text <ü>/\"&").build();
        ServiceInstance<Object> object = instance("object", new Load("v")).build();
        Map<String, String> map = new LinkedHashMap<>();
        map.put("x", "y");
        List<ServiceInstance<Object>> ours = new ArrayList<>(Arrays.asList(
            instance("none", null).build(), text, object, instance("map", map).build(), instance("bad", null).build()));
        for (ServiceInstance<Object> i : ours) {
            discovery.registerService(i);
        }
        ServiceInstance<Object> disabled = instance("disabled", null).enabled(false).build();
        withEnabled.registerService(disabled);
        ours.add(disabled);
        ServiceInstance<Object> own = instance("own/instances", "java's").id("java-own").build();
        discovery.registerService(own);
        ours.add(own);
        for (ServiceInstance<Object> i : ours) {
            say("registered " + show(i));
        }

        List<ServiceCache<Object>> caches = new ArrayList<>();
        for (String kind : KINDS) {
            ServiceCache<Object> cache = discovery.serviceCacheBuilder().name(kind).build();
            cache.start();
            caches.add(cache);
        }
        String shown = "";
        for (boolean updated = false; client.checkExists().forPath(base + "-over") == null; ) {
            if (!updated && client.checkExists().forPath(base + "-update") != null) {
                updated = true;
                object = instance("object", new Load("later")).registrationTimeUTC(object.getRegistrationTimeUTC()).build();
                discovery.updateService(object);
                say("updated " + show(object));
                discovery.unregisterService(text);
            }
            List<String> queried = new ArrayList<>();
            List<String> cached = new ArrayList<>();
            for (String kind : KINDS) {
                add(queried, discovery.queryForInstances(kind));
            }
            for (ServiceCache<Object> cache : caches) {
                add(cached, cache.getInstances());
            }
            Collections.sort(queried);
            Collections.sort(cached);
            if (queried.equals(cached) && !queried.toString().equals(shown)) {
                shown = queried.toString();
                say("shows " + String.join(" ; ", queried));
            }
            Thread.sleep(50);
        }
        for (ServiceCache<Object> cache : caches) {
            cache.close();
        }
        discovery.close();
        withEnabled.close();
        say("done");
        client.close();
    }

    static ServiceDiscovery<Object> discovery(CuratorFramework client, String base, boolean compatible) throws Exception {
        ServiceDiscovery<Object> discovery = ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath(base)
            .serializer(new JsonInstanceSerializer<>(Object.class, compatible)).build();
        discovery.start();
        return discovery;
    }

    static ServiceInstanceBuilder<Object> instance(String kind, Object payload) throws Exception {
        return builder().name(kind).id("java-" + kind).address("10.0.0.1").port(8080).payload(payload)
            .uriSpec(new UriSpec("{scheme}://{address}:{port}"));
    }

    /** Curator reads the flags of every network interface here. That fails if an interface vanishes, as a stopped container's does. */
    static ServiceInstanceBuilder<Object> builder() throws Exception {
        for (;;) {
            try {
                return ServiceInstance.builder();
            } catch (SocketException e) {
                if (!String.valueOf(e.getMessage()).contains("No such device")) {
                    throw e;
                }
                System.err.println("retried: " + e);
            }
        }
    }

    static void add(List<String> lines, Collection<ServiceInstance<Object>> instances) throws Exception {
        for (ServiceInstance<Object> i : instances) {
            lines.add(show(i));
        }
    }

    static String show(ServiceInstance<Object> i) throws Exception {
        Object payload = i.getPayload();
        String type = payload == null || payload instanceof String ? "" : payload.getClass().getName(); // JSON says it of others
        return String.join("|", i.getName(), i.getId(), i.getAddress(), "" + i.getPort(), "" + i.getSslPort(), type,
            new ObjectMapper().writeValueAsString(payload), "" + i.getRegistrationTimeUTC(), "" + i.getServiceType(),
            i.getUriSpec() == null ? "" : i.buildUriSpec(), "" + i.isEnabled());
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
