// Runs every case of cyclonus against a cluster. Its own command starts a process in a container for each connection, which takes
// hours; this one uses its batches, with the worker beside it. The cases, the expected answers and the tables are those of its
// library. The probes go to addresses of services: with egress closed, a name would wait for DNS for most of a minute. Cases
// that change pods allow DNS, and use names.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/mattfenwick/cyclonus/pkg/connectivity"
	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	"github.com/mattfenwick/cyclonus/pkg/kube"
	"github.com/mattfenwick/cyclonus/pkg/utils"
	v1 "k8s.io/api/core/v1"
)

var (
	namespaces = []string{"x", "y", "z"}
	pods       = []string{"a", "b", "c"}
	ports      = []int{80, 81}
)

// outcome is a line of the results.
type outcome struct {
	Number      int      `json:"number"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Passed      bool     `json:"passed"`
	// Wrong lists connections of each step whose answer differs from the expected one.
	Wrong [][]string `json:"wrong"`
}

func main() {
	protocols := flag.String("protocols", "TCP,UDP,SCTP", "protocols of the servers")
	results := flag.String("results", "", "file for one line of JSON for each case")
	only := flag.String("only", "", "numbers of cases, with commas between; all unless given")
	retries := flag.Int("retries", 1, "further tries of a step with wrong answers")
	wait := flag.Int("wait", 2, "seconds from a change to its probe")
	target := flag.String("target", string(generator.ProbeModeServiceIP), "address of the probes: service-name, service-ip or pod-ip")
	flag.Parse()

	file, err := os.Create(*results)
	utils.DoOrDie(err)
	defer file.Close()
	mode, err := generator.ParseProbeMode(*target)
	utils.DoOrDie(err)
	client, err := kube.NewKubernetesForContext("")
	utils.DoOrDie(err)
	resources, err := probe.NewDefaultResources(client, namespaces, pods, ports, parse(*protocols), nil, 180, true, "")
	utils.DoOrDie(err)
	interpreter := connectivity.NewInterpreter(client, resources, &connectivity.InterpreterConfig{
		ResetClusterBeforeTestCase:       true,
		KubeProbeRetries:                 *retries,
		PerturbationWaitSeconds:          *wait,
		VerifyClusterStateBeforeTestCase: true,
		BatchJobs:                        true,
	})
	printer := &connectivity.Printer{}
	last, err := resources.GetPod("z", "c")
	utils.DoOrDie(err)
	cases := generator.NewTestCaseGenerator(true, last.IP, namespaces, nil, nil).GenerateTestCases()
	for index, testCase := range cases {
		number := index + 1
		if *only != "" && !strings.Contains(","+*only+",", fmt.Sprintf(",%d,", number)) {
			continue
		}
		for _, step := range testCase.Steps {
			step.Probe.Mode = mode
			if mode == generator.ProbeModeServiceIP && changesPods(testCase) {
				step.Probe.Mode = generator.ProbeModeServiceName
			}
		}
		result := interpreter.ExecuteTestCase(testCase)
		utils.DoOrDie(result.Err)
		printer.PrintTestCaseResult(result)
		line, err := json.Marshal(outcome{number, testCase.Description, testCase.Tags.Keys(), result.Passed(false), wrong(result)})
		utils.DoOrDie(err)
		_, err = fmt.Fprintf(file, "%s\n", line)
		utils.DoOrDie(err)
	}
	printer.PrintSummary()
}

// changesPods tells whether the library loses addresses of services in the case: a pod that it makes or labels has none.
func changesPods(testCase *generator.TestCase) bool {
	for _, step := range testCase.Steps {
		for _, action := range step.Actions {
			if action.CreatePod != nil || action.SetPodLabels != nil {
				return true
			}
		}
	}
	return false
}

func parse(names string) []v1.Protocol {
	var protocols []v1.Protocol
	for _, name := range strings.Split(names, ",") {
		protocol, err := kube.ParseProtocol(name)
		utils.DoOrDie(err)
		protocols = append(protocols, protocol)
	}
	return protocols
}

func wrong(result *connectivity.Result) [][]string {
	steps := [][]string{}
	for _, step := range result.Steps {
		found := []string{}
		comparison := step.LastComparison()
		for _, key := range comparison.Wrapped.Keys() {
			item := comparison.Get(key.From, key.To)
			for name, answer := range item.Kube.JobResults {
				if expected := item.Simulated.JobResults[name]; answer.Combined != expected.Combined {
					found = append(found, fmt.Sprintf("%s -> %s %s: %s, expected %s", key.From, key.To, name, answer.Combined, expected.Combined))
				}
			}
		}
		steps = append(steps, found)
	}
	return steps
}
