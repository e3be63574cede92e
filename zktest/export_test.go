package zktest

// WithElectionTime is an option for tests of elections.
var WithElectionTime = withElectionTime
