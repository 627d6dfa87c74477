// A second client of netplug-sidecar beside Envoy, made of Envoy's own messages and gRPC's own library. Standard input is JSON, a check
// on each line; standard output has for each the code of gRPC, then that of the check. With -at-once N, N checks are under way at a time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

type check struct {
	Source, Principal string
	SourcePort        uint32
	Destination       string
	Port              uint32
	Method, Path      string
	// Bytes of a header, which the sidecar skips.
	Padding int
}

func main() {
	atOnce := flag.Int("at-once", 1, "checks under way at a time")
	flag.Parse()
	connection, err := grpc.NewClient("unix-abstract:netplug-check", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail(err)
	}
	client := auth.NewAuthorizationClient(connection)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	var answers []chan string
	slots := make(chan struct{}, *atOnce)
	for lines.Scan() {
		var each check
		if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
			fail(err)
		}
		answer := make(chan string, 1)
		answers = append(answers, answer)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			answer <- ask(client, each)
		}()
	}
	for _, answer := range answers {
		fmt.Println(<-answer)
	}
}

func ask(client auth.AuthorizationClient, each check) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	attributes := &auth.AttributeContext{
		Source:      &auth.AttributeContext_Peer{Address: address(each.Source, each.SourcePort), Principal: each.Principal},
		Destination: &auth.AttributeContext_Peer{Address: address(each.Destination, each.Port)},
	}
	if each.Method != "" {
		attributes.Request = &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{
			Method: each.Method, Path: each.Path, Headers: map[string]string{"padding": strings.Repeat("x", each.Padding)},
		}}
	}
	answer, err := client.Check(ctx, &auth.CheckRequest{Attributes: attributes})
	return fmt.Sprint(int(status.Code(err)), " ", answer.GetStatus().GetCode())
}

func address(host string, port uint32) *core.Address {
	socket := &core.SocketAddress{Address: host, PortSpecifier: &core.SocketAddress_PortValue{PortValue: port}}
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: socket}}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
