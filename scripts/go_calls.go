// Go's own HTTP/2, client and server (net/http), with something between them. scripts/go.sh runs it:
//
//	go run go_calls.go serve PORT          cleartext with prior knowledge, and with TLS on the next port
//	go run go_calls.go call URL            says what each call came to, one line each
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Requests that the server saw given up.
var cancelled atomic.Int64

func content(size int) []byte {
	made := make([]byte, size)
	for at := range made {
		made[at] = byte(at*7 + at>>9)
	}
	return made
}

func sum(bytes []byte) string { return fmt.Sprintf("%x", sha256.Sum256(bytes))[:16] }

func number(request *http.Request, name string) int {
	value, _ := strconv.Atoi(request.URL.Query().Get(name))
	return value
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(number(r, "wait")) * time.Millisecond)
		w.Header().Set("x-told", r.Header.Get("x-told"))
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Query().Get("q"))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { w.Write(content(number(r, "size"))) })
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(number(r, "code")) })
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s %v %v", len(body), sum(body), err, r.ContentLength == int64(len(body)))
	})
	// What comes goes back line by line, while more comes.
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/grpc")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "%s!\n", lines.Text())
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("trailer", "x-sum")
		w.Write([]byte("body"))
		w.Header().Set("x-sum", "4")
	})
	// Until whoever asked gives it up.
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("some"))
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			cancelled.Add(1)
		case <-time.After(20 * time.Second):
		}
	})
	mux.HandleFunc("/cancelled", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, cancelled.Load()) })
	return mux
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"go.example"}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go_calls:", err)
		os.Exit(1)
	}
}

func serve(port int) {
	plain := new(http.Protocols)
	plain.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler(), Protocols: plain}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	check(err)
	secured, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
	check(err)
	sealed := &http.Server{Handler: handler(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()}}}
	go sealed.ServeTLS(secured, "", "")
	fmt.Println("serving")
	check(server.Serve(listener))
}

func client() *http.Client {
	both := new(http.Protocols)
	both.SetUnencryptedHTTP2(true)
	both.SetHTTP2(true)
	return &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{
		Protocols: both, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// A body of unknown length.
type opaque struct{ io.Reader }

func call(url string) {
	failed := false
	say := func(name, what string) { fmt.Printf("%s: %s\n", name, what) }
	fetch := func(c *http.Client, method, path string, body io.Reader) (*http.Response, []byte, error) {
		request, err := http.NewRequest(method, url+path, body)
		check(err)
		request.Header.Set("x-told", "1")
		response, err := c.Do(request)
		if err != nil {
			return nil, nil, err
		}
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		return response, all, err
	}
	one := func(name, method, path string, body io.Reader) {
		response, all, err := fetch(client(), method, path, body)
		if err != nil {
			failed = true
			say(name, "failed: "+err.Error())
			return
		}
		told := string(all)
		if len(all) > 100 {
			told = fmt.Sprintf("%d %s", len(all), sum(all))
		}
		say(name, fmt.Sprintf("%s %d %q %q %v", response.Proto, response.StatusCode, told, response.Header.Get("x-told"), response.Trailer))
	}
	// So many, 100 at a time, over one client, which has a connection already.
	many := func(name string, count int, method string, path func(int) string, body func(int) io.Reader, wanted func(int) string) {
		shared, good, places := client(), atomic.Int64{}, make(chan bool, 100)
		_, _, err := fetch(shared, "GET", "/get", nil)
		check(err)
		var group sync.WaitGroup
		for at := range count {
			group.Go(func() {
				places <- true
				defer func() { <-places }()
				_, all, err := fetch(shared, method, path(at), body(at))
				if err == nil && strings.HasPrefix(string(all), wanted(at)) {
					good.Add(1)
				} else {
					failed = true
					fmt.Fprintf(os.Stderr, "%s %d: %v %.100q\n", name, at, err, all)
				}
			})
		}
		group.Wait()
		say(name, fmt.Sprint(good.Load()))
	}
	none := func(int) io.Reader { return nil }
	one("get", "GET", "/get?q=a", nil)
	one("head", "HEAD", "/get?q=a", nil)
	one("delete", "DELETE", "/get?q=b", nil)
	one("no content", "GET", "/status?code=204", nil)
	one("teapot", "GET", "/status?code=418", nil)
	one("large", "GET", "/large?size=20000000", nil)
	one("trailers", "GET", "/trailers", nil)
	one("empty upload", "POST", "/upload", nil)
	one("upload", "POST", "/upload", bytes.NewReader(content(5_000_000)))
	one("upload of any length", "POST", "/upload", opaque{bytes.NewReader(content(3_000_000))})
	many("100 at a time", 1000, "GET", func(at int) string { return fmt.Sprintf("/get?q=%d&wait=20", at) }, none,
		func(at int) string { return fmt.Sprintf("GET %d", at) })
	many("large ones at a time", 30, "GET", func(int) string { return "/large?size=300000" }, none,
		func(int) string { return string(content(300_000)) })
	many("uploads at a time", 30, "POST", func(int) string { return "/upload" },
		func(at int) io.Reader { return bytes.NewReader(content(1_000_000 + at)) },
		func(at int) string { return fmt.Sprintf("%d %s <nil>", 1_000_000+at, sum(content(1_000_000+at))) })
	echo(url, say)
	cancel(url, say)
	if failed {
		os.Exit(1)
	}
}

// Both directions at once.
func echo(url string, say func(string, string)) {
	reader, writer := io.Pipe()
	request, err := http.NewRequest("POST", url+"/echo", reader)
	check(err)
	request.Header.Set("te", "trailers")
	response, err := client().Do(request)
	check(err)
	lines, said := bufio.NewReader(response.Body), []string{}
	for at := range 5 {
		fmt.Fprintf(writer, "line %d\n", at)
		line, err := lines.ReadString('\n')
		check(err)
		said = append(said, strings.TrimSpace(line))
	}
	writer.Close()
	_, err = lines.ReadByte()
	say("echo", fmt.Sprintf("%v %v", said, errors.Is(err, io.EOF)))
}

// What is given up is given up at its server, and its connection goes on.
func cancel(url string, say func(string, string)) {
	shared := client()
	count := func() int {
		response, err := shared.Get(url + "/cancelled")
		check(err)
		defer response.Body.Close()
		all, _ := io.ReadAll(response.Body)
		value, _ := strconv.Atoi(string(all))
		return value
	}
	before := count()
	for range 10 {
		context, stop := context.WithCancel(context.Background())
		request, err := http.NewRequestWithContext(context, "GET", url+"/slow", nil)
		check(err)
		response, err := shared.Do(request)
		check(err)
		some := make([]byte, 4)
		_, err = io.ReadFull(response.Body, some)
		check(err)
		stop()
	}
	for tries := 0; count() < before+10 && tries < 100; tries++ {
		time.Sleep(50 * time.Millisecond)
	}
	say("cancel", fmt.Sprint(count()-before))
}

func main() {
	if len(os.Args) != 3 {
		check(errors.New("serve PORT, or call URL"))
	}
	switch os.Args[1] {
	case "serve":
		port, err := strconv.Atoi(os.Args[2])
		check(err)
		serve(port)
	case "call":
		call(os.Args[2])
	}
}
