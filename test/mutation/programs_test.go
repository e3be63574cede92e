package mutation

// programBugs are mutations of the programs and the adapters.
var programBugs = []mutation{
	{
		name:  "a chroot in --servers is ignored",
		file:  "cmd/internal/cli/connection.go",
		edits: []edit{{old: "framework.WithNamespace(namespace),", new: "framework.WithNamespace(c.namespace),"}},
		pkg:   "./cmd/zkdiscover", test: "TestChroot",
	},
	{
		name:  "zkdiscover prints text of other clients as it is",
		file:  "cmd/zkdiscover/ls.go",
		edits: []edit{{old: "cli.Printable(i.ID), cli.Printable(target(i))", new: "i.ID, target(i)"}},
		pkg:   "./cmd/zkdiscover", test: "TestLsQuotesForeignText",
	},
	{
		name:  "zkdiscover serves targets that Prometheus refuses",
		file:  "cmd/zkdiscover/http.go",
		edits: []edit{{old: "if !scrapable(i) {", new: "if false {"}},
		pkg:   "./cmd/zkdiscover", test: "TestHTTP_ServesOnlyTargetsThatCanBeScraped",
	},
	{
		name:  "zkdiscover takes the id of another process",
		file:  "cmd/zkdiscover/register.go",
		edits: []edit{{old: "case err != nil || !found:", new: "default:"}},
		pkg:   "./cmd/zkdiscover", test: "TestRegister_WaitsForItsID",
	},
	{
		name:  "a program does not report that its output cannot be written",
		file:  "cmd/internal/cli/cli.go",
		edits: []edit{{old: "if err != nil && o.err == nil {", new: "if err == nil && o.err == nil {"}},
		pkg:   "./cmd/internal/cli", test: "TestExecute",
	},
	{
		name:  "a program that a second signal ends reports success",
		file:  "cmd/internal/cli/signals.go",
		edits: []edit{{old: "os.Exit(ExitSignal + int(s.(syscall.Signal)))", new: "os.Exit(0)"}},
		pkg:   "./cmd/internal/cli", test: "TestSecondSignal",
	},
	{
		name:  "zkdiscover drains a command that has ended",
		file:  "cmd/zkdiscover/register.go",
		edits: []edit{{old: "\tcancel() // the end of the command ends the drain\n", new: "\t<-unregistered\n\tcancel()\n"}},
		pkg:   "./cmd/zkdiscover", test: "TestACommandThatEndsWithoutAServerIsNotWaitedFor",
	},
	{
		name:  "zklock starts a command while the previous holder's runs",
		file:  "cmd/zklock/shadow.go",
		edits: []edit{{old: "\tfor _, name := range names {\n", new: "\tfor _, name := range names[:0] {\n"}},
		pkg:   "./cmd/zklock", test: "TestShadowOfWhoDoesNotComeBack",
	},
	{
		name:  "zklock does not look for other kinds of locks at its path",
		file:  "cmd/zklock/kinds.go",
		edits: []edit{{old: "case kind != l.kind():", new: "case false:"}},
		pkg:   "./cmd/zklock", test: "TestKindsOfLocksThatDoNotExcludeEachOther",
	},
	{
		name:  "an election in which no process has led has no gauge",
		file:  "observe/promobserve/prometheus.go",
		edits: []edit{{old: "\tm.held.WithLabelValues(of.lock, of.kind)\n", new: ""}},
		pkg:   "./observe/promobserve", test: "TestSeries",
	},
}
