// push-with-go-git REPOSITORY URL SOURCE:REF... pushes with go-git, and prints what the server says.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
	gossh "golang.org/x/crypto/ssh"
)

func push(folder, url string, specs []string) error {
	repository, err := git.PlainOpen(folder)
	if err != nil {
		return err
	}
	remote, err := repository.CreateRemoteAnonymous(&config.RemoteConfig{Name: "anonymous", URLs: []string{url}})
	if err != nil {
		return err
	}
	options := &git.PushOptions{RemoteName: "anonymous", Progress: os.Stdout}
	for _, spec := range specs {
		options.RefSpecs = append(options.RefSpecs, config.RefSpec(spec))
	}
	if strings.HasPrefix(url, "ssh:") {
		keys, err := ssh.NewPublicKeysFromFile("root", os.Getenv("SSH_KEY"), "")
		if err != nil {
			return err
		}
		keys.User = strings.Split(strings.TrimPrefix(url, "ssh://"), "@")[0]
		keys.HostKeyCallback = gossh.InsecureIgnoreHostKey()
		options.Auth = keys
	}
	return remote.Push(options)
}

func main() {
	if err := push(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
