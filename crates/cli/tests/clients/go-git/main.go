// go-git: see README.md one folder up.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/memory"
	gossh "golang.org/x/crypto/ssh"
)

func login(url string) (transport.AuthMethod, error) {
	if !strings.HasPrefix(url, "ssh:") {
		return nil, nil
	}
	keys, err := ssh.NewPublicKeysFromFile("root", os.Getenv("SSH_KEY"), "")
	if err != nil {
		return nil, err
	}
	keys.User = strings.Split(strings.TrimPrefix(url, "ssh://"), "@")[0]
	keys.HostKeyCallback = gossh.InsecureIgnoreHostKey()
	return keys, nil
}

func remote(folder, url string) (*git.Remote, error) {
	repository, err := git.PlainOpen(folder)
	if err != nil {
		return nil, err
	}
	return repository.CreateRemoteAnonymous(&config.RemoteConfig{Name: "anonymous", URLs: []string{url}})
}

func list(url string, auth transport.AuthMethod) error {
	there := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "anonymous", URLs: []string{url}})
	refs, err := there.List(&git.ListOptions{Auth: auth})
	for _, ref := range refs {
		if ref.Type() == plumbing.HashReference {
			fmt.Printf("%s\t%s\n", ref.Hash(), ref.Name())
		}
	}
	return err
}

func run(action, url string, words []string) error {
	auth, err := login(url)
	if err != nil {
		return err
	}
	switch action {
	case "list":
		return list(url, auth)
	case "clone":
		_, err := git.PlainClone(words[0], true, &git.CloneOptions{URL: url, Auth: auth})
		return err
	}
	there, err := remote(words[0], url)
	if err != nil {
		return err
	}
	if action == "fetch" {
		specs := []config.RefSpec{"+refs/heads/*:refs/from/*"}
		return there.Fetch(&git.FetchOptions{RemoteName: "anonymous", RefSpecs: specs, Auth: auth})
	}
	options := &git.PushOptions{RemoteName: "anonymous", Progress: os.Stdout, Auth: auth}
	for _, spec := range words[1:] {
		options.RefSpecs = append(options.RefSpecs, config.RefSpec(spec))
	}
	return there.Push(options)
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
