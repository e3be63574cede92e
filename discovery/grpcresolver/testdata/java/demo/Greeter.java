package demo;

import com.google.protobuf.StringValue;

/** What both sides offer: the gRPC service demo.Greeter with the method greet. */
public interface Greeter {
    StringValue greet(StringValue name);
}
