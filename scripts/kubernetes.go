// The parts of Kubernetes as one program, chosen by its first argument: what scripts/kubernetes.sh builds.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"apiserver":   apiserver.NewAPIServerCommand,
		"controllers": controllers.NewControllerManagerCommand,
		"scheduler":   func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":     func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	part := func() *cobra.Command { return nil }
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		part = parts[os.Args[1]]
		os.Args = os.Args[1:]
	}
	command := part()
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: kubernetes apiserver|controllers|scheduler|kubelet OPTIONS")
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
