package demo;

import com.google.protobuf.StringValue;
import java.util.Map;
import java.util.Scanner;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.MetadataReportConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/**
 * A provider ("provide APPLICATION PORT...": dubbo on the first of two ports, tri on the last) or a consumer ("consume [GROUP]") of Greeter.
 * With a group, the registry is Dubbo's only setting.
 */
public class Peer {
    static DubboBootstrap start(String application, String servers, String group) {
        ApplicationConfig app = new ApplicationConfig(application);
        app.setQosEnable(false);
        app.setRegisterMode("instance");
        app.setParameters(Map.of("migration.step", "FORCE_APPLICATION"));
        RegistryConfig registry = new RegistryConfig("zookeeper://" + servers + (group.isEmpty() ? "" : "?group=" + group));
        registry.setTimeout(20_000);
        DubboBootstrap dubbo = DubboBootstrap.getInstance().application(app).registry(registry);
        return group.isEmpty() ? dubbo.metadataReport(new MetadataReportConfig("zookeeper://" + servers)) : dubbo;
    }

    public static void main(String[] args) {
        boolean consumer = args[1].equals("consume");
        DubboBootstrap dubbo = start(consumer ? "java-consumer" : args[2], args[0], consumer && args.length > 2 ? args[2] : "");
        if (consumer) {
            consume(dubbo);
        } else {
            provide(dubbo, args);
        }
        System.exit(0);
    }

    static void provide(DubboBootstrap dubbo, String[] args) {
        if (args.length == 5) {
            dubbo.protocol(new ProtocolConfig("dubbo", Integer.parseInt(args[3])));
        }
        dubbo.protocol(new ProtocolConfig("tri", Integer.parseInt(args[args.length - 1])));
        ServiceConfig<Greeter> service = new ServiceConfig<>();
        service.setInterface(Greeter.class);
        service.setRef(name -> StringValue.of("hello " + name.getValue() + " from java"));
        dubbo.service(service).start();
        System.out.println("STARTED");
        new Scanner(System.in).hasNextLine();
        dubbo.stop();
    }

    /** Calls once a line of the input, until its end. */
    static void consume(DubboBootstrap dubbo) {
        ReferenceConfig<Greeter> reference = new ReferenceConfig<>();
        reference.setInterface(Greeter.class);
        reference.setCheck(false);
        reference.setTimeout(10_000);
        reference.setRetries(0);
        dubbo.reference(reference).start();
        Greeter greeter = reference.get();
        System.out.println("STARTED");
        for (Scanner in = new Scanner(System.in); in.hasNextLine(); ) {
            try {
                System.out.println("ANSWER " + greeter.greet(StringValue.of(in.nextLine())).getValue());
            } catch (RuntimeException e) {
                System.out.println("ANSWER failed: " + e.toString().replace('\n', ' '));
            }
        }
    }
}
