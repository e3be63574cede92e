// Package browser tests the page of a timeline in headless Chromium.
package browser
