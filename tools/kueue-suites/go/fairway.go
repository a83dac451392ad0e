package framework

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "kueue-system"
	patience  = 60 * time.Second
)

// plane is Fairway as a user would start it: with webhooks, one `fairway serve` that is restarted with other controllers;
// without, an API of its own and `fairway controller` beside it.
type plane struct {
	fairway, state, port string
	webhooks             bool
	server, controller   *exec.Cmd

	lock   sync.Mutex
	source *source
}

// source is where metrics are read.
type source struct {
	url, token string
	authority  []byte
}

func newPlane(webhooks bool) *plane {
	return &plane{fairway: os.Getenv("FAIRWAY"), state: os.Getenv("FAIRWAY_STATE"), port: freePort(), webhooks: webhooks}
}

func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func (p *plane) config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.state, "kubeconfig"))
	if err == nil {
		cfg.QPS, cfg.Burst = -1, -1
	}
	return cfg, err
}

// run has Fairway run these controllers, and no others.
func (p *plane) run(controllers []string) error {
	if p.webhooks {
		end(p.server)
		return p.serve(controllers)
	}
	end(p.controller)
	p.controller = nil
	if len(controllers) == 0 {
		return nil
	}
	return p.control(controllers)
}

func (p *plane) serve(controllers []string) error {
	args := []string{"serve", "--state", p.state, "--port", p.port}
	if p.webhooks {
		args = append(args, "--no-node", "--controllers", chosen(controllers))
	} else {
		args = append(args, "--api-only")
	}
	var err error
	if p.server, err = p.start("server.log", "Fairway is serving", args...); err != nil {
		return err
	}
	cfg, err := p.config()
	if err != nil {
		return err
	}
	if p.webhooks {
		p.follow(&source{cfg.Host, cfg.BearerToken, cfg.CAData})
	}
	return nil
}

func (p *plane) control(controllers []string) error {
	var err error
	args := []string{"controller", "--state", p.state, "--controllers", chosen(controllers)}
	if p.controller, err = p.start("controller.log", "lead", args...); err != nil {
		return err
	}
	p.follow(nil)
	cfg, err := p.config()
	if err != nil {
		return err
	}
	secret, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Secrets("kube-system").Get(context.Background(), "fairway-decider", metav1.GetOptions{})
	if err == nil {
		p.follow(&source{string(secret.Data["url"]), string(secret.Data["token"]), secret.Data["ca.crt"]})
	}
	return nil
}

func chosen(controllers []string) string {
	if len(controllers) == 0 {
		return "none"
	}
	return strings.Join(controllers, ",")
}

// start begins a process and waits for a line of its output; the output goes to a file.
func (p *plane) start(log, ready string, args ...string) (*exec.Cmd, error) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(p.state), log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.fairway, args...)
	cmd.Stderr = file
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	heard := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(file, lines.Text())
			if strings.Contains(lines.Text(), ready) {
				heard <- nil
			}
		}
		select {
		case heard <- errors.New(strings.Join(args, " ") + " ended; see " + file.Name()):
		default:
		}
		file.Close()
	}()
	select {
	case err := <-heard:
		return cmd, err
	case <-time.After(patience):
		end(cmd)
		return nil, fmt.Errorf("fairway %s was not ready after %s; see %s", args[0], patience, file.Name())
	}
}

func end(cmd *exec.Cmd) {
	if cmd == nil || cmd.Process == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	slow := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	slow.Stop()
}

func (p *plane) close() {
	end(p.controller)
	end(p.server)
}

// configure writes the Configuration of Kueue, and whether admission is on hold, to the ConfigMaps that Fairway reads.
func (p *plane) configure(text string, held bool) error {
	cfg, err := p.config()
	if err != nil {
		return err
	}
	ctx, clients := context.Background(), kubernetes.NewForConfigOrDie(cfg).CoreV1()
	_, err = clients.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for name, data := range map[string]map[string]string{
		"kueue-manager-config": {"controller_manager_config.yaml": text},
		"fairway-config":       {"config.yaml": fmt.Sprintf("holdAdmission: %v\n", held)},
	} {
		_, err = clients.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			body, _ := json.Marshal(map[string]any{"data": data})
			_, err = clients.ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *plane) follow(s *source) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.source = s
}

// metrics says where Fairway's metrics are; without a URL they cannot be read now.
func (p *plane) metrics() (url, token string, authority []byte) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.source == nil {
		return "", "", nil
	}
	return strings.TrimSuffix(p.source.url, "/") + "/metrics", p.source.token, p.source.authority
}
