// Makes all connections of a pod at once, inside one process. The worker of cyclonus starts a process for each, which keeps two
// processors busy for half a minute with each step of a case. SCTP is left to that worker.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattfenwick/cyclonus/pkg/utils"
	"github.com/mattfenwick/cyclonus/pkg/worker"
	v1 "k8s.io/api/core/v1"
)

// Times and tries are those of the worker of cyclonus.
const (
	timeout = time.Second
	retries = 1

	lookupTimeout = 10 * time.Second
)

func main() {
	jobs := flag.String("jobs", "", "batch of requests as JSON")
	flag.Parse()
	var batch worker.Batch
	utils.DoOrDie(json.Unmarshal([]byte(*jobs), &batch))
	results := make([]*worker.Result, len(batch.Requests))
	var all sync.WaitGroup
	for index, request := range batch.Requests {
		all.Add(1)
		go func() {
			defer all.Done()
			results[index] = issue(request)
		}()
	}
	all.Wait()
	text, err := json.Marshal(results)
	utils.DoOrDie(err)
	fmt.Printf("%s\n", text)
}

func issue(request *worker.Request) *worker.Result {
	if request.Protocol == v1.ProtocolSCTP {
		return worker.IssueRequestWithRetries(request, retries)
	}
	if request.Host == "" {
		panic(fmt.Sprintf("no address in request %s", request.Key))
	}
	address, err := resolve(request.Host)
	if err != nil {
		return &worker.Result{Request: request, Error: err.Error()}
	}
	for try := 0; try <= retries; try++ {
		if err = connect(strings.ToLower(string(request.Protocol)), net.JoinHostPort(address, strconv.Itoa(request.Port))); err == nil {
			return &worker.Result{Request: request}
		}
	}
	return &worker.Result{Request: request, Error: err.Error()}
}

// resolve has a limit of its own: all pods ask for all names at once.
func resolve(host string) (string, error) {
	limited, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(limited, host)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}

// connect opens a connection; over UDP it waits for an answer, too.
func connect(network, address string) error {
	connection, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return err
	}
	defer connection.Close()
	if network == "tcp" {
		return nil
	}
	if err := connection.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := connection.Write([]byte("\n")); err != nil {
		return err
	}
	_, err = connection.Read(make([]byte, 1024))
	return err
}
