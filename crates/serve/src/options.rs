//! The command line of `refdb serve`.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::{
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// What the command line asks for.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// `refdb serve`: to serve.
    Serve(Options),
    /// `refdb serve status`: to show the state of the server that serves metrics on this address.
    Status(SocketAddr),
}

/// The command line of `refdb serve`, parsed.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) roots: Vec<(String, PathBuf)>,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) http_socket: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) export_all: bool,
    pub(crate) user: Option<String>,
}

/// The address on which the server listens by default: a loopback port that the system chooses.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Returns the definition of the command line.
pub fn command() -> Command {
    let path = || value_parser!(PathBuf);
    let address = || value_parser!(SocketAddr);
    Command::new("refdb-serve")
        .bin_name("refdb serve")
        .about("Serve repositories over HTTP to fetch from and push to")
        .args([
            Arg::new("root")
                .long("root")
                .value_name("[PREFIX=]DIR")
                .action(ArgAction::Append)
                .value_parser(value_parser!(OsString))
                .help("Serve the repositories below DIR. With a prefix, their paths begin with /PREFIX/."),
            Arg::new("http").long("http").value_name("ADDRESS:PORT").value_parser(address()).help(
                "Listen on this TCP address, unless systemd passes a socket for HTTP. Headers that name a user are \
                 ignored, except with serve.proxySecret. If no address and no socket is given, the server chooses a \
                 loopback port and prints it.",
            ),
            Arg::new("http-socket").long("http-socket").value_name("PATH").value_parser(path()).help(
                "Listen on this Unix socket, unless systemd passes a socket for HTTP, for a proxy that authenticates \
                 users. The server trusts the proxy's headers X-Remote-User and X-Remote-Addr.",
            ),
            Arg::new("socket").long("socket").value_name("PATH").value_parser(path()).help(
                "Listen on this Unix socket for `refdb upload-pack`, which sshd or git daemon starts. Its folder must \
                 belong to the server's user and have the mode 0700.",
            ),
            Arg::new("metrics")
                .long("metrics")
                .value_name("ADDRESS:PORT")
                .value_parser(address())
                .help("Serve /metrics, /health and /status on this address"),
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(path())
                .help("Read the serve.* settings from FILE"),
            Arg::new("export-all")
                .long("export-all")
                .action(ArgAction::SetTrue)
                .help("Also serve repositories that have no file git-daemon-export-ok"),
            Arg::new("user")
                .long("user")
                .value_name("NAME")
                .help("Run as this user, usually the owner of the repositories. Required if root starts the server."),
        ])
        .subcommand(
            Command::new("status").about("Show the state of a running server").arg(
                Arg::new("metrics")
                    .long("metrics")
                    .value_name("ADDRESS:PORT")
                    .value_parser(address())
                    .required(true)
                    .help("The address of --metrics or serve.metrics of that server"),
            ),
        )
}

impl Wanted {
    /// Parses the words of the command line, the first of which is the program's name.
    ///
    /// # Errors
    ///
    /// Fails if the command line is invalid, with the text to print. `--help` is reported in the same way.
    pub fn parse(command: Command, words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut found = command.try_get_matches_from(words)?;
        match found.remove_subcommand() {
            Some((_, mut status)) => Ok(Wanted::Status(status.remove_one("metrics").unwrap_or(ADDRESS))),
            None => Ok(Wanted::Serve(Options::of(found))),
        }
    }
}

impl Options {
    fn of(mut found: ArgMatches) -> Self {
        let roots = found.remove_many::<OsString>("root").unwrap_or_default().map(root).collect();
        let mut http = found.remove_one("http");
        let http_socket = found.remove_one("http-socket");
        let socket = found.remove_one("socket");
        if http.is_none() && http_socket.is_none() && socket.is_none() {
            http = Some(ADDRESS);
        }
        Options {
            roots,
            http,
            http_socket,
            socket,
            metrics: found.remove_one("metrics"),
            config: found.remove_one("config"),
            export_all: found.get_flag("export-all"),
            user: found.remove_one("user"),
        }
    }
}

/// Splits `PREFIX=DIR`. A word has no prefix if it contains no `=`, contains a slash before its first `=`, is the path
/// of an existing folder, or is not UTF-8.
pub(crate) fn root(word: OsString) -> (String, PathBuf) {
    let split = word.to_str().and_then(|text| text.split_once('='));
    match split {
        Some((prefix, dir)) if !prefix.contains('/') && !Path::new(&word).is_dir() => {
            (prefix.to_owned(), PathBuf::from(dir))
        }
        _ => (String::new(), PathBuf::from(word)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The options of a server that is started with these words.
    pub(crate) fn parse(words: &[&str]) -> Options {
        let words = ["refdb-serve"].iter().chain(words).map(OsString::from);
        match Wanted::parse(command(), words).unwrap() {
            Wanted::Serve(options) => options,
            Wanted::Status(_) => panic!("the command is to serve"),
        }
    }

    #[test]
    fn a_root_may_have_a_prefix_and_a_server_always_has_an_address() {
        command().debug_assert();
        let options = parse(&["--root", "/srv/git", "--root", "team=/srv/team", "--root", "/a=b/c"]);
        let roots = [("", "/srv/git"), ("team", "/srv/team"), ("", "/a=b/c")];
        assert_eq!(options.roots, roots.map(|(prefix, dir)| (prefix.to_owned(), PathBuf::from(dir))));
        assert_eq!(options.http, Some(ADDRESS));
        assert!(parse(&["--http-socket", "/run/x"]).http.is_none());
    }
}
