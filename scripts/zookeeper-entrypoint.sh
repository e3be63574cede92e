#!/bin/bash
# Starts ZooKeeper in a container, from the environment variables of the official image.
set -euo pipefail

data=${ZOO_DATA_DIR:-/data}
log=${ZOO_DATA_LOG_DIR:-/datalog}
conf=/conf/zoo.cfg
mkdir -p "$data" "$log" /conf

if [ ! -f "$conf" ]; then
	{
		echo "dataDir=$data"
		echo "dataLogDir=$log"
		echo "tickTime=${ZOO_TICK_TIME:-2000}"
		echo "initLimit=${ZOO_INIT_LIMIT:-5}"
		echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
		echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
		echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
		echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}"
		echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
		for line in ${ZOO_CFG_EXTRA:-}; do echo "$line"; done
		if [ -z "${ZOO_SERVERS:-}" ]; then
			ZOO_SERVERS="server.1=localhost:2888:3888;2181"
		fi
		for server in $ZOO_SERVERS; do echo "$server"; done
	} >"$conf"
fi
[ -f "$data/myid" ] || echo "${ZOO_MY_ID:-1}" >"$data/myid"

java=/usr/share/java
jars=$(printf '%s:' "$java"/zookeeper.jar "$java"/zookeeper-jute.jar "$java"/slf4j-api.jar "$java"/slf4j-simple.jar \
	"$java"/netty-*.jar "$java"/metrics-core.jar "$java"/snappy-java.jar "$java"/commons-cli.jar "$java"/commons-io.jar \
	"$java"/commons-lang.jar "$java"/audience-annotations.jar)
# The JVM flags are for servers that live for a test: they start fast and stay small.
# shellcheck disable=SC2086
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xmx256m -XX:+ExitOnOutOfMemoryError ${SERVER_JVMFLAGS:-} ${JVMFLAGS:-} \
	-Dorg.slf4j.simpleLogger.defaultLogLevel=${ZOO_LOG_LEVEL:-warn} \
	-cp "$jars/conf" org.apache.zookeeper.server.quorum.QuorumPeerMain "$conf"
