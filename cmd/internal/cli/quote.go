package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Printable returns another client's text in a form that is safe for a terminal and fits on one
// line. It quotes empty text and text with unprintable characters.
func Printable(text string) string {
	if quoted := strconv.Quote(text); text == "" || quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// PrintableJSON returns valid JSON on one line, with escapes for unprintable characters.
func PrintableJSON(data json.RawMessage) string {
	if len(data) == 0 {
		return "null"
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return Printable(string(data))
	}
	var b strings.Builder
	for _, r := range line.String() { // an invalid byte is utf8.RuneError, which is printable
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// OneLine replaces each unprintable character by an escape.
func OneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
