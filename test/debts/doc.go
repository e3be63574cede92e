// Package debts has no code: its tests give up a call of each recipe at each of its requests, and
// look at what is left after Close.
package debts
