//! A server that may open no more files, or start no more processes and threads.

use super::{Kept, NULL, Push, Refs, assert_whole, listed, refs_of};
use crate::support::{Answer, Options, Request, Server, exported, feed, packets};
use refdb_testkit::{RefFormat, Repo, at_most};
use refdb_types::{HashKind, ObjectId};
use rustix::process::Resource;
use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

/// The longest time that the requests of [`Trial::ask_all`] take together, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Requests of each kind, and what came of them.
struct Trial<'a> {
    server: &'a Server,
    folder: &'a Path,
    client: Repo,
    main: ObjectId,
    commit: ObjectId,
    refs: Refs,
    pushes: usize,
    /// The pushes without a verdict, which may be done at any time, with the status of each answer.
    undecided: Vec<(Push, u16)>,
    /// The start of the pack that the fetch of `main` brings, with the number of its objects.
    pack: Vec<u8>,
}

/// How many requests were served, and how many refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Count {
    served: usize,
    refused: usize,
}

impl<'a> Trial<'a> {
    fn new(server: &'a Server, folder: &'a Path) -> Self {
        let client = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let commit = client.commits(1)[0];
        let refs = refs_of(folder);
        let main = refs["refs/heads/main"];
        let mut trial =
            Trial { server, folder, client, main, commit, refs, pushes: 0, undecided: Vec::new(), pack: Vec::new() };
        trial.pack = start_of_pack(&server.ask(&trial.fetch()).body).unwrap();
        trial
    }

    fn fetch(&self) -> Request {
        let want = format!("want {}\n", self.main);
        let lines = ["command=fetch\n", "object-format=sha1\n", "0001", "no-progress\n", &want, "done\n", "0000"];
        Request::post("repo", "git-upload-pack", packets(&lines)).with("Git-Protocol", "version=2")
    }

    /// Sends a request of each kind, each over a connection that is already open, and checks what comes.
    fn ask_all(&mut self, connections: &mut [Kept; 4]) -> Count {
        let [lists, discoveries, fetches, pushes] = connections;
        let mut count = Count::default();
        let begun = Instant::now();
        let answer = lists.ask(&Request::ls_refs("repo"));
        if count.add(&answer) {
            let listed = listed(&answer);
            self.decide(&listed);
            assert_eq!(listed, self.refs, "{:?}", self.statuses());
        }
        for service in ["git-upload-pack", "git-receive-pack"] {
            let answer = discoveries.ask(&Request::discovery("repo", service));
            if count.add(&answer) {
                let main = format!("{} refs/heads/main", self.main);
                // The body lacks its flush packet if the thread or program that writes it could not do its work.
                let is_whole = answer.body.ends_with(b"0000");
                assert!(!is_whole || answer.text().contains(&main), "{}", answer.text());
            }
        }
        let answer = fetches.ask(&self.fetch());
        if count.add(&answer) {
            let start = start_of_pack(&answer.body);
            assert!(start.is_none_or(|start| start == self.pack), "{}", answer.text());
        }
        self.pushes += 1;
        let push = Push::new(&self.client, &format!("refs/heads/n{}", self.pushes), NULL, self.commit);
        let answer = pushes.ask(&push.request("repo"));
        count.add(&answer);
        let found = refs_of(self.folder);
        push.note(&answer.body, &mut self.refs, &found);
        if !answer.text().contains(" refs/heads/") && !self.refs.contains_key(&push.name) {
            self.undecided.push((push, answer.status));
        }
        self.decide(&found);
        assert_eq!(found, self.refs, "{} {:?}", answer.text(), self.statuses());
        assert!(begun.elapsed() < at_most(PATIENCE), "{:?}: {}", begun.elapsed(), self.server.errors());
        count
    }

    /// Counts each push without a verdict as done whose new value these refs show.
    fn decide(&mut self, found: &Refs) {
        let refs = &mut self.refs;
        self.undecided.retain(|(push, _)| {
            let is_done = found.get(&push.name) == Some(&push.new);
            if is_done {
                refs.insert(push.name.clone(), push.new);
            }
            !is_done
        });
    }

    /// The names and the statuses of the pushes without a verdict.
    fn statuses(&self) -> Vec<(&str, u16)> {
        self.undecided.iter().map(|(push, status)| (&push.name[..], *status)).collect()
    }

    /// Asserts that all is well now that nothing is scarce.
    fn assert_well(mut self) {
        let count = self.ask_all(&mut connections(self.server));
        assert_eq!(count, Count { served: 5, refused: 0 }, "{}", self.server.errors());
        assert_eq!(start_of_pack(&self.server.ask(&self.fetch()).body), Some(self.pack));
        assert!(self.refs.contains_key(&format!("refs/heads/n{}", self.pushes)));
        assert_whole(self.folder);
    }
}

impl Count {
    /// Counts an answer, and returns whether its status is 200.
    fn add(&mut self, answer: &Answer) -> bool {
        match answer.status {
            200 => self.served += 1,
            500 | 503 => self.refused += 1,
            _ => panic!("{answer:?}"),
        }
        answer.status == 200
    }
}

/// Returns the header of the pack in the answer to a fetch, or `None` if the answer is not whole or has no pack.
fn start_of_pack(body: &[u8]) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 12;
    let start = body.windows(4).position(|word| word == b"PACK")?;
    body.ends_with(b"0000").then(|| body[start..][..HEADER_BYTES].to_vec())
}

fn connections(server: &Server) -> [Kept; 4] {
    [(); 4].map(|()| Kept::new(server.connect()))
}

#[test]
fn without_descriptors_requests_fail_one_by_one_and_the_listener_waits() {
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        repo.config("http.receivepack", "true");
        repo.config("receive.autogc", "false");
        let server = Options::root(repo.scratch()).start();
        let mut trial = Trial::new(&server, repo.git_dir());
        let mut kept = connections(&server);
        assert_eq!(trial.ask_all(&mut kept), Count { served: 5, refused: 0 }, "{}", server.errors());
        let mut counts = Count::default();
        for more in 0..24 {
            // An error may have closed a connection.
            let mut kept = connections(&server);
            kept.iter_mut().for_each(|kept| _ = kept.ask(&Request::discovery("none", "git-upload-pack")));
            server.limit(Resource::Nofile, Some(server.descriptors() + more));
            let count = trial.ask_all(&mut kept);
            counts = Count { served: counts.served + count.served, refused: counts.refused + count.refused };
            server.limit(Resource::Nofile, None);
        }
        assert!(counts.served > 0 && counts.refused > 0, "{counts:?}");
        assert_listener_waits(&server);
        trial.assert_well();
    }
}

/// Previously, idle connections took all descriptors, so that lists failed too.
#[test]
fn connections_leave_descriptors_to_requests() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    repo.config("receive.autogc", "false");
    let server = Options::root(repo.scratch()).descriptors(128).start();
    let mut trial = Trial::new(&server, repo.git_dir());
    let mut kept = connections(&server);
    assert_eq!(trial.ask_all(&mut kept), Count { served: 5, refused: 0 }, "{}", server.errors());
    let idle: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    let end = Instant::now() + at_most(PATIENCE);
    while server.descriptors() < 64 {
        assert!(Instant::now() < end, "{} descriptors", server.descriptors());
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..10 {
        assert_eq!(trial.ask_all(&mut kept), Count { served: 5, refused: 0 }, "{}", server.errors());
    }
    drop(idle);
    trial.assert_well();
}

/// The server holds the input and the output of a shim's client besides the shim's connection.
#[test]
fn shims_leave_descriptors_to_requests() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    repo.config("receive.autogc", "false");
    let server = Options::root(repo.scratch()).descriptors(128).start();
    let mut trial = Trial::new(&server, repo.git_dir());
    let mut kept = connections(&server);
    assert_eq!(trial.ask_all(&mut kept), Count { served: 5, refused: 0 }, "{}", server.errors());
    let mut shims: Vec<_> = (0..45)
        .map(|_| {
            let mut shim = server.shim();
            shim.env("GIT_PROTOCOL", "version=2").arg(repo.git_dir());
            shim.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    // Each is served once it has sent its capabilities, by the server or by git.
    shims.iter_mut().for_each(|shim| shim.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap());
    for _ in 0..5 {
        assert_eq!(trial.ask_all(&mut kept), Count { served: 5, refused: 0 }, "{}", server.errors());
    }
    for mut shim in shims {
        drop(shim.stdin.take());
        shim.wait().unwrap();
    }
    trial.assert_well();
}

/// Asserts that clients that come while there is no descriptor for them are served later, and that the server meanwhile
/// neither spins nor fills its log.
fn assert_listener_waits(server: &Server) {
    server.limit(Resource::Nofile, Some(3));
    let mut waiting: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|stream| stream.write_all(&Request::ls_refs("repo").bytes()).unwrap());
    let (cpu, said) = (server.cpu(), server.errors().matches("cannot accept").count());
    std::thread::sleep(Duration::from_secs(2));
    let (cpu, said) = (server.cpu() - cpu, server.errors().matches("cannot accept").count() - said);
    assert!(cpu < Duration::from_millis(500), "two seconds of waiting took {cpu:?}");
    assert!(said <= 2, "it said so {said} times");
    server.limit(Resource::Nofile, None);
    for stream in waiting {
        assert_eq!(Answer::read(stream, false).status, 200);
    }
    server.await_errors("cannot accept");
}

#[test]
fn without_processes_and_threads_lists_are_served_and_all_else_fails_in_time() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    repo.config("receive.autogc", "false");
    let server = Options::root(repo.scratch()).set("queueSeconds", 2).run_by_stranger(repo.scratch()).start();
    assert_eq!(server.ask(&Request::discovery("none", "git-upload-pack")).status, 404, "it has started");
    // The limit is set before the server has any thread for discoveries. Previously, the server then answered nothing,
    // because its runtime panicked.
    server.limit(Resource::Nproc, Some(0));
    for _ in 0..3 {
        for service in ["git-upload-pack", "git-receive-pack"] {
            let answer = server.ask(&Request::discovery("repo", service));
            assert!([500, 503].contains(&answer.status), "{answer:?}: {}", server.errors());
        }
        assert_eq!(listed(&server.ask(&Request::ls_refs("repo"))), refs_of(repo.git_dir()));
    }
    server.limit(Resource::Nproc, None);
    let mut trial = Trial::new(&server, repo.git_dir());
    let mut kept = connections(&server);
    assert_eq!(trial.ask_all(&mut kept), Count { served: 5, refused: 0 }, "{}", server.errors());
    server.limit(Resource::Nproc, Some(0));
    for _ in 0..3 {
        let count = trial.ask_all(&mut kept);
        // The list and the discovery for fetches are served; other requests may be, by threads that earlier pushes have
        // left.
        assert!(count.served >= 2 && count.refused >= 1, "{count:?}: {}", server.errors());
    }
    // A shim, which is no process of the server, gets a whole list, or fails.
    let mut shim = server.shim();
    shim.env("REFDB_GIT", "/usr/bin/git").env("GIT_PROTOCOL", "version=2").arg(repo.git_dir());
    let list = packets(&["command=ls-refs\n", "object-format=sha1\n", "0001", "0000"]);
    let said = feed(&mut shim, &list);
    assert!(said.code == 0 || !said.output.ends_with(b"0000"), "{said:?}");
    server.limit(Resource::Nproc, None);
    // Now a hook is what cannot be started.
    let hook = repo.git_dir().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(trial.ask_all(&mut connections(&server)), Count { served: 5, refused: 0 }, "{}", server.errors());
    let mut kept = connections(&server);
    server.limit(Resource::Nproc, Some(0));
    let before = trial.refs.clone();
    trial.ask_all(&mut kept);
    assert_eq!(trial.refs, before, "the hook was not asked");
    server.limit(Resource::Nproc, None);
    assert!(!server.errors().contains("panicked"), "{}", server.errors());
    trial.assert_well();
}
