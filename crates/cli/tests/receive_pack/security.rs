//! What a client, its environment or a repository's owner must not be able to do.

use crate::{
    common::{Client, REFDB, hook, refs},
    trouble::{request, send},
};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{os::unix::fs::chown, path::Path, process::Output};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Returns a request with these push options, some of which git's client would not send.
fn with_options(client: &Client, options: &[&[u8]]) -> Vec<u8> {
    let (bytes, starts) = request(client, "report-status push-options");
    let pack = *starts.last().unwrap();
    let mut all = bytes[..pack].to_vec();
    for option in options {
        all.extend_from_slice(format!("{:04x}", option.len() + 4).as_bytes());
        all.extend_from_slice(option);
    }
    all.extend_from_slice(b"0000");
    all.extend_from_slice(&bytes[pack..]);
    all
}

#[test]
fn a_push_option_is_a_value_and_nothing_else() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    server.config("receive.advertisePushOptions", "true");
    hook(&server, "pre-receive", "env -0 | grep -z ^GIT_PUSH_OPTION | sort -z >../options");
    let options: [&[u8]; 5] =
        [b"$(touch ../made)", b"x\nGIT_DIR=/nowhere", b"--exec=touch ../made", b"; touch ../made", b"\xff\xfe ../../x"];
    let output = send(&server, &with_options(&client, &options));
    assert!(text(&output).contains("ok refs/heads/main\n"), "{}", text(&output));
    let mut wanted = b"GIT_PUSH_OPTION_0=$(touch ../made)\0GIT_PUSH_OPTION_1=x\nGIT_DIR=/nowhere\0".to_vec();
    wanted.extend_from_slice(b"GIT_PUSH_OPTION_2=--exec=touch ../made\0GIT_PUSH_OPTION_3=; touch ../made\0");
    wanted.extend_from_slice(b"GIT_PUSH_OPTION_4=\xff\xfe ../../x\0GIT_PUSH_OPTION_COUNT=5\0");
    assert_eq!(std::fs::read(server.scratch().join("options")).unwrap(), wanted);
    assert!(!server.scratch().join("made").exists());
}

#[test]
fn a_push_option_that_no_variable_can_hold_refuses_the_push() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    server.config("receive.advertisePushOptions", "true");
    for with_hook in [false, true] {
        if with_hook {
            hook(&server, "pre-receive", "exit 0");
        }
        let output = send(&server, &with_options(&client, &[b"good", b"cut\0here"]));
        let said = text(&output);
        assert!(said.contains("push option") && said.contains("byte"), "{said}");
        assert_eq!(refs(&server), 0);
    }
}

#[test]
fn a_certificate_that_nobody_asked_for_reaches_no_ref_outside() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let (bytes, starts) = request(&client, "report-status");
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    for name in ["../../made", "refs/heads/../../../made", "refs/heads/x\n0000"] {
        let mut cert = line("push-cert\0report-status");
        for words in [
            "certificate version 0.1\n".to_owned(),
            "pusher ../../made 1700000000 +0000\n".into(),
            "nonce ../../made\n".into(),
            "\n".into(),
            format!("{} {} {name}\n", "0".repeat(40), client.commits[4]),
            "-----BEGIN PGP SIGNATURE-----\n".into(),
            "../../made\n".into(),
            "push-cert-end\n".into(),
        ] {
            cert.push_str(&line(&words));
        }
        cert.push_str("0000");
        let output = send(&server, &[cert.as_bytes(), &bytes[*starts.last().unwrap()..]].concat());
        assert!(!text(&output).contains(&format!("ok {name}")), "{}", text(&output));
        assert_eq!(server.refs(), []);
        assert!(!server.scratch().join("made").exists() && !server.git_dir().join("made").exists());
    }
}

#[test]
fn settings_included_for_the_folder_of_the_repository_had_no_effect_on_pushes() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let [global, strict] = ["gitconfig", "strict"].map(|name| client.repo.scratch().join(name));
    std::fs::write(&strict, "[receive]\n\thideRefs = refs/heads/hidden\n").unwrap();
    for receive_pack in [client.receive_pack.display().to_string(), "git-receive-pack".into()] {
        for pattern in [format!("{}/", server.dir().canonicalize().unwrap().display()), "nothing/".into()] {
            let include = format!("[includeIf \"gitdir:{pattern}\"]\n\tpath = {}\n", strict.display());
            std::fs::write(&global, include).unwrap();
            let mut push = client.repo.command(Git::find().program());
            push.env("GIT_CONFIG_GLOBAL", &global).env("REFDB_GIT", Git::find().program()).args(["push", "--force"]);
            push.arg(format!("--receive-pack={receive_pack}")).arg(server.dir());
            let output = push.arg(format!("{}:refs/heads/hidden", client.commits[1])).output().unwrap();
            assert_eq!(output.status.success(), pattern == "nothing/", "{receive_pack} {pattern}: {}", text(&output));
        }
        server.git(["update-ref", "-d", "refs/heads/hidden"]);
    }
}

#[test]
fn a_repository_of_another_user_is_not_trusted() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    hook(&server, "pre-receive", "touch ../made");
    server.config("core.hooksPath", "hooks");
    // The variables are for the receiving program alone, since the pusher has a repository, too.
    let push = |variables: &[(&str, &str)]| {
        let variables: String = variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
        let mut push = client.repo.command(Git::find().program());
        push.env("REFDB_GIT", Git::find().program()).arg("push");
        push.arg(format!("--receive-pack={variables}{}", client.receive_pack.display())).arg(server.dir());
        push.arg(format!("{}:refs/heads/main", client.commits[1])).output().unwrap()
    };
    let mut trust_nobody = vec![("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")];
    if chown(server.dir(), Some(65_534), None).is_ok() {
        // Root can test with another owner.
        trust_nobody.clear();
    }
    let said = text(&push(&trust_nobody));
    assert!(said.contains("detected dubious ownership"), "{said}");
    // The repository's own configuration cannot declare it safe.
    let own = server.git_dir().join("config");
    let before = std::fs::read_to_string(&own).unwrap();
    std::fs::write(&own, format!("{before}[safe]\n\tdirectory = *\n")).unwrap();
    let said = text(&push(&trust_nobody));
    assert!(said.contains("detected dubious ownership"), "{said}");
    assert!(!server.scratch().join("made").exists(), "a hook of a repository that is not trusted ran");
    // The user's configuration can declare it safe.
    let global = client.repo.scratch().join("gitconfig");
    std::fs::write(&global, format!("[safe]\n\tdirectory = {}\n", server.dir().display())).unwrap();
    let mut trusting = trust_nobody.clone();
    trusting.push(("GIT_CONFIG_GLOBAL", global.to_str().unwrap()));
    let output = push(&trusting);
    assert!(output.status.success(), "{}", text(&output));
    assert!(server.scratch().join("made").exists());
}

#[test]
fn a_folder_in_a_hooks_place_refuses_what_asks_for_the_hook() {
    for name in ["pre-receive", "update"] {
        let client = Client::new(HashKind::Sha1);
        let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
        std::fs::create_dir_all(server.git_dir().join("hooks").join(name)).unwrap();
        for is_refdb in [false, true] {
            let output = client.push(&server, is_refdb, &[format!("{}:refs/heads/main", client.commits[1])]);
            let said = text(&output);
            assert!(!output.status.success() && said.contains("hook declined"), "{name}: {said}");
        }
        assert_eq!(refs(&server), 0);
    }
}

#[test]
fn variables_of_the_client_lead_nowhere_else() {
    let client = Client::new(HashKind::Sha1);
    let elsewhere = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let other = elsewhere.dir().to_str().unwrap();
    for (format, by_refdb) in [(RefFormat::Files, false), (RefFormat::Files, true), (RefFormat::Reftable, true)] {
        let server = Repo::bare(format, HashKind::Sha1);
        hook(
            &server,
            "update",
            "env | grep -E '^GIT_(DIR|COMMON_DIR|WORK_TREE|INDEX_FILE|PREFIX)=' >../variables; exit 0",
        );
        let (bytes, _) = request(&client, "report-status");
        let program = if by_refdb { Path::new(REFDB) } else { Git::find().program() };
        let mut command = server.command(program);
        command.args(["receive-pack", "--stateless-rpc"]).arg(server.dir()).env("REFDB_GIT", Git::find().program());
        // GIT_COMMON_DIR and GIT_OBJECT_DIRECTORY are left out, because git follows them and refdb delegates such a
        // push to git.
        let variables = [
            ("GIT_DIR", other),
            ("GIT_REF_STORAGE_FORMAT", "nonsense"),
            ("GIT_PROTOCOL", "version=1:version=99:\n::=:version"),
            ("REFDB_HANDED_OVER", "nonsense"),
            ("GIT_DEFAULT_HASH", "sha256"),
            ("GIT_CEILING_DIRECTORIES", "/"),
        ];
        command.envs(variables);
        let output = {
            let mut child = command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes);
            child.wait_with_output().unwrap()
        };
        assert!(text(&output).contains("ok refs/heads/main\n"), "{format:?} {by_refdb}: {}", text(&output));
        assert_eq!(refs(&server), 2);
        assert_eq!(elsewhere.refs(), []);
        let seen = std::fs::read_to_string(server.scratch().join("variables")).unwrap();
        assert_eq!(seen, "GIT_DIR=.\n", "{format:?} {by_refdb}");
    }
}
