// Opens many watches and sends many writes at a time, as controllers made with client-go do: with Go's HTTP client and
// its defaults, so over HTTP/2 if the server offers it. Prints what it saw as one line of JSON, and a second one when
// the server has ended all watches. Reads the server's URL, a token and the namespace from the arguments.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

func main() {
	url, token, namespace := os.Args[1], os.Args[2], os.Args[3]
	watches, _ := strconv.Atoi(os.Args[4])
	writes, _ := strconv.Atoi(os.Args[5])
	var connections, http2 atomic.Int64
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connections.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
	path := url + "/api/v1/namespaces/" + namespace + "/configmaps"
	send := func(method, path, body string) *http.Response {
		request, _ := http.NewRequest(method, path, strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if response.ProtoMajor == 2 {
			http2.Add(1)
		}
		return response
	}
	io.Copy(io.Discard, send("GET", url+"/version", "").Body)

	var seen, ended sync.WaitGroup
	var clean atomic.Int64
	begun := make(chan bool, watches)
	for range watches {
		seen.Add(1)
		ended.Add(1)
		go func() {
			defer ended.Done()
			response := send("GET", path+"?watch=1", "")
			begun <- true
			lines := bufio.NewScanner(response.Body)
			lines.Buffer(nil, 1<<20)
			for events := 0; lines.Scan(); {
				if strings.Contains(lines.Text(), `"name":"w-`) {
					if events++; events == writes {
						seen.Done()
					}
				}
			}
			if lines.Err() == nil {
				clean.Add(1)
			}
		}()
	}
	for range watches {
		<-begun
	}
	var created atomic.Int64
	var writing sync.WaitGroup
	for number := range writes {
		writing.Add(1)
		go func() {
			defer writing.Done()
			response := send("POST", path, fmt.Sprintf(`{"metadata":{"name":"w-%d"}}`, number))
			io.Copy(io.Discard, response.Body)
			if response.StatusCode == 201 {
				created.Add(1)
			}
		}()
	}
	writing.Wait()
	seen.Wait()
	out := json.NewEncoder(os.Stdout)
	out.Encode(map[string]int64{"connections": connections.Load(), "http2": http2.Load(), "created": created.Load()})
	ended.Wait()
	out.Encode(map[string]int64{"clean": clean.Load()})
}
