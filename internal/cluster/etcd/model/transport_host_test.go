package model

import (
	"testing"
)

func TestAMemberIsKnownByItsHost(t *testing.T) {
	for url, want := range map[string]string{
		"https://orders-0.orders-peers.shop.svc:2380": "orders-0.orders-peers.shop.svc",
		"http://orders-0.orders-peers.shop.svc:2379":  "orders-0.orders-peers.shop.svc",
		"https://orders-0":                            "orders-0",
		"https://10.0.0.7:2380":                       "10.0.0.7",
		"https://[fd00::7]:2380":                      "fd00::7",
		"https://orders-0:2380/path":                  "orders-0",
		"https://user@orders-0:2380/":                 "orders-0",
		"https://:2380":                               "https://:2380",
		"orders-0":                                    "orders-0",
		"":                                            "",
	} {
		if got := Host(url); got != want {
			t.Errorf("%q leads to %q, want %q", url, got, want)
		}
	}
	if !SameHost("https://a:2380", "http://a:2379") || SameHost("https://a:2380", "https://b:2380") {
		t.Error("hosts are told apart by something else")
	}
}
