package timeline

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"time"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	page = template.Must(template.New("page").Parse(pageHTML))
)

// content is what the page's script reads.
type content struct {
	Now     time.Duration `json:"now"`
	Dropped int           `json:"dropped"`
	Lanes   []string      `json:"lanes"`
	Entries []Entry       `json:"entries"`
}

// WriteHTML writes a page that needs no network. Texts of clients are data of the page's script,
// with every < escaped, and the script shows them as text.
func (r *Recorder) WriteHTML(w io.Writer, title string) error {
	c := content{}
	c.Entries, c.Dropped = r.Entries()
	c.Lanes = lanes(c.Entries)
	c.Now = r.now(c.Entries)
	data, err := json.Marshal(c) // escapes <, > and &
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = page.Execute(&b, struct {
		Title  string
		Style  template.CSS
		Data   template.JS
		Script template.JS
	}{cut(title), template.CSS(pageCSS), template.JS(data), template.JS(pageJS)})
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}
