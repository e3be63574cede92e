package mutation

// programBugs are mutations of the programs and the adapters.
var programBugs = []group{
	{file: "cmd/internal/cli/connection.go", pkg: "./cmd/zkdiscover", mutations: []mutation{
		{name: "a chroot in --servers is ignored",
			old: "framework.WithNamespace(namespace),", new: "framework.WithNamespace(c.namespace),",
			test: "TestChroot"},
	}},
	{file: "cmd/zkdiscover/ls.go", pkg: "./cmd/zkdiscover", mutations: []mutation{
		{name: "zkdiscover prints text of other clients as it is",
			old: "cli.Printable(i.ID), cli.Printable(target(i))", new: "i.ID, target(i)",
			test: "TestLsQuotesForeignText"},
	}},
	{file: "cmd/zkdiscover/http.go", pkg: "./cmd/zkdiscover", mutations: []mutation{
		{name: "zkdiscover serves targets that Prometheus refuses",
			old: "if !scrapable(i) {", new: "if false {",
			test: "TestHTTP_ServesOnlyTargetsThatCanBeScraped"},
	}},
	{file: "cmd/zkdiscover/register.go", pkg: "./cmd/zkdiscover", mutations: []mutation{
		{name: "zkdiscover takes the id of another process",
			old: "case err != nil || !found:", new: "default:",
			test: "TestRegister_WaitsForItsID"},
		{name: "zkdiscover drains a command that has ended",
			old: "\tcancel() // the end of the command ends the drain\n", new: "\t<-unregistered\n\tcancel()\n",
			test: "TestACommandThatEndsWithoutAServerIsNotWaitedFor"},
	}},
	{file: "cmd/internal/cli/cli.go", pkg: "./cmd/internal/cli", mutations: []mutation{
		{name: "a program does not report that its output cannot be written",
			old: "if err != nil && o.err == nil {", new: "if err == nil && o.err == nil {",
			test: "TestExecute"},
	}},
	{file: "cmd/internal/cli/signals.go", pkg: "./cmd/internal/cli", mutations: []mutation{
		{name: "a program that a second signal ends reports success",
			old: "os.Exit(ExitSignal + int(s.(syscall.Signal)))", new: "os.Exit(0)",
			test: "TestSecondSignal"},
	}},
	{file: "cmd/zklock/shadow.go", pkg: "./cmd/zklock", mutations: []mutation{
		{name: "zklock starts a command while the previous holder's runs",
			old: "\tfor _, name := range names {\n", new: "\tfor _, name := range names[:0] {\n",
			test: "TestShadowOfWhoDoesNotComeBack"},
	}},
	{file: "cmd/zklock/kinds.go", pkg: "./cmd/zklock", mutations: []mutation{
		{name: "zklock does not look for other kinds of locks at its path",
			old: "case kind != l.kind():", new: "case false:",
			test: "TestKindsOfLocksThatDoNotExcludeEachOther"},
	}},
	{file: "observe/promobserve/prometheus.go", pkg: "./observe/promobserve", mutations: []mutation{
		{name: "an election in which no process has led has no gauge",
			old: "\tm.held.WithLabelValues(of.lock, of.kind)\n", new: "",
			test: "TestSeries"},
	}},
}
