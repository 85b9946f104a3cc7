//! The settings of the server: a file in the syntax of git's configuration, read at start and after SIGHUP.
//! `serve.metrics`, `serve.maxConnections`, `serve.memory`, `serve.openFiles`, `serve.openRepositories` and
//! `serve.drainSeconds` keep the values that they had at start.
//!
//! Each limit has a default that suits a machine with a few cores and thousands of clients.

use crate::options::{Options, root};
use bstr::ByteSlice;
use refdb::config::{Config, ConfigError, Value};
use refdb_vfs::Fs;
use std::{
    ffi::OsString,
    net::SocketAddr,
    num::NonZeroU32,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The settings of the server, from the command line and the file of `--config`.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `--root` and `serve.root`: the prefix, which may be empty, and the folder of each root.
    pub(crate) roots: Vec<(String, PathBuf)>,
    /// `serve.exportAll`, or `--export-all`.
    pub(crate) export_all: bool,
    /// `--metrics`, or else `serve.metrics`: the address at which metrics are served.
    pub(crate) metrics: Option<SocketAddr>,
    /// `serve.allowTarget`: folders outside of the roots to which a link may lead.
    pub(crate) allowed_targets: Vec<PathBuf>,
    /// `serve.authorize`: the program or Unix socket that decides who may read from and write to a repository by HTTP.
    pub(crate) authorize: Option<PathBuf>,
    /// `serve.authorizeTimeout`, which is in milliseconds.
    pub(crate) authorize_timeout: Duration,
    /// `serve.accessLog`: the file to which a line is appended for each request; standard error if it is `-`.
    pub(crate) access_log: Option<PathBuf>,
    /// `serve.proxySecret`: the value of the header X-Refdb-Secret with which a proxy on a TCP connection proves that
    /// its headers can be trusted.
    pub(crate) proxy_secret: Option<Vec<u8>>,
    /// `serve.git`: the name or path of the git program; by default the value of `REFDB_GIT`, or `git`.
    pub(crate) git: OsString,
    pub(crate) limits: Limits,
}

/// The bounds on what clients can make the server do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// `serve.maxConnections`: open connections, of which a shim's count as three. Others wait in the backlog of the
    /// socket, or, if they are a shim's, may be closed so that the shim runs git.
    pub(crate) connections: usize,
    /// `serve.maxRequests`: requests in progress, polls included.
    pub(crate) requests: usize,
    /// `serve.maxRequestsPerClient`: requests in progress of one user, or of one address without a user.
    pub(crate) requests_per_client: usize,
    /// `serve.maxRequestsPerRepository`: requests in progress for one repository.
    pub(crate) requests_per_repository: usize,
    /// `serve.maxFetches`: `git upload-pack` programs that the server runs, except those that are asked for their
    /// capabilities.
    pub(crate) fetches: usize,
    /// `serve.maxPushes`: pushes, and discoveries of pushes, that are being served.
    pub(crate) pushes: usize,
    /// `serve.maxFetchesPerRepository`: what `serve.maxFetches` counts, in one repository. By default two thirds of
    /// `serve.maxFetches`.
    pub(crate) fetches_each: Option<usize>,
    /// `serve.maxPushesPerRepository`: what `serve.maxPushes` counts, in one repository. By default two thirds of
    /// `serve.maxPushes`.
    pub(crate) pushes_each: Option<usize>,
    /// `serve.maxFetchesPerClient`: what `serve.maxFetches` counts, of one client. By default five sixths of
    /// `serve.maxFetches`; more, if possible, if `serve.maxFetchesPerRepository` is at least that number.
    pub(crate) fetches_per_client: Option<usize>,
    /// `serve.maxPushesPerClient`: what `serve.maxPushes` counts, of one client. By default five sixths of
    /// `serve.maxPushes`; more, if possible, if `serve.maxPushesPerRepository` is at least that number.
    pub(crate) pushes_per_client: Option<usize>,
    /// `serve.queueSeconds`: how long a fetch or push waits for its turn before the server responds with 503.
    pub(crate) queue: Duration,
    /// `serve.rate`: requests a second of one user, or of one address without a user. The response to more is 429, once
    /// the burst is used up.
    pub(crate) rate: NonZeroU32,
    /// `serve.burst`: requests of one client that may arrive at once.
    pub(crate) burst: NonZeroU32,
    /// `serve.idleSeconds`: how long the server waits for a client over HTTP to send or to read something before it
    /// closes the connection. In HTTP/2, an idle connection is closed after up to twice this time, and a client that
    /// answers pings but reads nothing of its response keeps it open.
    pub(crate) idle: Duration,
    /// `serve.requestSeconds`: how long a client may take to send the body of a request, that of a push included.
    pub(crate) request_time: Duration,
    /// `serve.drainSeconds`: how long requests may go on after SIGTERM or SIGINT.
    pub(crate) drain: Duration,
    /// `serve.memory`: bytes of all caches of refs together.
    pub(crate) memory_bytes: usize,
    /// `serve.openFiles`: files with refs that are kept open.
    pub(crate) open_files: usize,
    /// `serve.openRepositories`: repositories that are kept open.
    pub(crate) repositories: usize,
    /// `serve.maxRequestBytes`: the size of a request that is not a push, after decompression.
    pub(crate) request_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 16_384,
            requests: 12_288,
            requests_per_client: 12_288,
            requests_per_repository: 12_288,
            fetches: 32,
            pushes: 96,
            fetches_each: None,
            pushes_each: None,
            fetches_per_client: None,
            pushes_per_client: None,
            queue: Duration::from_secs(30),
            rate: number(50_000),
            burst: number(100_000),
            idle: Duration::from_secs(60),
            request_time: Duration::from_secs(2 * 60 * 60),
            drain: Duration::from_secs(30),
            memory_bytes: 128 << 20,
            open_files: 256,
            repositories: 4096,
            request_bytes: 64 << 20,
        }
    }
}

fn number(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN)
}

impl Settings {
    /// Combines the command line with the settings in the file of `--config`, if one is given.
    pub(crate) fn read(options: &Options) -> Result<Self, SettingsError> {
        let mut settings = Settings {
            roots: options.roots.clone(),
            export_all: options.export_all,
            metrics: options.metrics,
            allowed_targets: Vec::new(),
            authorize: None,
            authorize_timeout: Duration::from_secs(5),
            access_log: None,
            proxy_secret: None,
            git: std::env::var_os("REFDB_GIT").filter(|git| !git.is_empty()).unwrap_or_else(|| "git".into()),
            limits: Limits::default(),
        };
        if let Some(file) = &options.config {
            let text = Fs::real().read(file).map_err(SettingsError::Unreadable)?;
            settings.add(&text, file)?;
        }
        if settings.roots.is_empty() {
            return Err(SettingsError::NoRoot);
        }
        Ok(settings)
    }

    fn add(&mut self, text: &[u8], file: &Path) -> Result<(), SettingsError> {
        let config = Config::parse(text, file)?;
        let on_command_line = self.metrics;
        for value in config.iter() {
            if value.key == "serve.metrics" {
                let bad = |_| SettingsError::Address(value.raw.unwrap_or_default().to_string());
                let address = value.text()?.to_string().parse().map_err(bad)?;
                // The last value in the file counts.
                self.metrics = on_command_line.or(Some(address));
            } else if !self.set(&value)? {
                return Err(SettingsError::Unknown { key: value.key.to_string(), file: file.to_owned() });
            }
        }
        Ok(())
    }

    /// Applies one setting. Returns `false` if no setting has this name.
    fn set(&mut self, value: &Value<'_>) -> Result<bool, SettingsError> {
        let limits = &mut self.limits;
        match value.key.as_bytes() {
            b"serve.root" => self.roots.push(root(OsString::from_vec(value.text()?.to_vec()))),
            b"serve.exportall" => self.export_all |= value.boolean()?,
            b"serve.allowtarget" => self.allowed_targets.push(path(value)?),
            b"serve.authorize" => self.authorize = Some(path(value)?),
            b"serve.authorizetimeout" => self.authorize_timeout = Duration::from_millis(count(value)?),
            b"serve.accesslog" => self.access_log = Some(path(value)?),
            b"serve.proxysecret" => {
                self.proxy_secret = Some(value.text()?.to_vec()).filter(|secret| !secret.is_empty())
            }
            b"serve.git" => self.git = path(value)?.into(),
            b"serve.maxconnections" => limits.connections = size(value)?,
            b"serve.maxrequests" => limits.requests = size(value)?,
            b"serve.maxrequestsperclient" => limits.requests_per_client = size(value)?,
            b"serve.maxrequestsperrepository" => limits.requests_per_repository = size(value)?,
            b"serve.maxfetches" => limits.fetches = size(value)?,
            b"serve.maxpushes" => limits.pushes = size(value)?,
            b"serve.maxfetchesperrepository" => limits.fetches_each = Some(size(value)?),
            b"serve.maxpushesperrepository" => limits.pushes_each = Some(size(value)?),
            b"serve.maxfetchesperclient" => limits.fetches_per_client = Some(size(value)?),
            b"serve.maxpushesperclient" => limits.pushes_per_client = Some(size(value)?),
            b"serve.queueseconds" => limits.queue = seconds(value)?,
            b"serve.rate" => limits.rate = number(u32::try_from(count(value)?).unwrap_or(u32::MAX)),
            b"serve.burst" => limits.burst = number(u32::try_from(count(value)?).unwrap_or(u32::MAX)),
            b"serve.idleseconds" => limits.idle = seconds(value)?,
            b"serve.requestseconds" => limits.request_time = seconds(value)?,
            b"serve.drainseconds" => limits.drain = seconds(value)?,
            b"serve.memory" => limits.memory_bytes = size(value)?,
            b"serve.openfiles" => limits.open_files = size(value)?,
            b"serve.openrepositories" => limits.repositories = size(value)?,
            b"serve.maxrequestbytes" => limits.request_bytes = count(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns the path in a setting.
fn path(value: &Value<'_>) -> Result<PathBuf, ConfigError> {
    Ok(OsString::from_vec(value.text()?.to_vec()).into())
}

/// Returns the number of a setting, which must be at least 1, because with most limits at 0 the server would serve
/// nothing.
fn count(value: &Value<'_>) -> Result<u64, SettingsError> {
    let number = value.long()?;
    let count = u64::try_from(number).ok().filter(|&count| count > 0);
    count.ok_or_else(|| SettingsError::TooSmall { key: value.key.to_string(), number })
}

/// Returns the time in a setting, a year at most, so that adding it to the present time cannot overflow.
fn seconds(value: &Value<'_>) -> Result<Duration, SettingsError> {
    Ok(Duration::from_secs(count(value)?.min(365 * 24 * 60 * 60)))
}

fn size(value: &Value<'_>) -> Result<usize, SettingsError> {
    Ok(usize::try_from(count(value)?).unwrap_or(usize::MAX))
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("there is nothing to serve: name a folder of repositories with --root or serve.root")]
    NoRoot,
    #[error("cannot read the settings: {0}")]
    Unreadable(refdb_vfs::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("serve.metrics must be an address with a port, not '{0}'")]
    Address(String),
    #[error("{key} must be at least 1, not {number}")]
    TooSmall { key: String, number: i64 },
    #[error("unknown setting '{key}' in {}", file.display())]
    Unknown { key: String, file: PathBuf },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, SettingsError> {
        let temp = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(temp.path(), text).unwrap();
        let words = ["refdb-serve", "--config"].map(OsString::from).into_iter().chain([temp.path().into()]);
        match crate::Wanted::parse(crate::command(), words).unwrap() {
            crate::Wanted::Serve(options) => Settings::read(&options),
            crate::Wanted::Status(_) => panic!("the command is to serve"),
        }
    }

    #[test]
    fn a_file_sets_limits_and_roots() {
        let read = settings("[serve]\nroot = a=/srv/a\nroot = /srv/b\nmaxFetches = 2k\nrate = 1\n").unwrap();
        assert_eq!(read.roots, [("a".to_owned(), "/srv/a".into()), (String::new(), "/srv/b".into())]);
        assert_eq!((read.limits.fetches, read.limits.rate.get()), (2048, 1));
        assert_eq!(read.limits.pushes, Limits::default().pushes);
    }

    #[test]
    fn a_time_without_end_can_be_added_to_now() {
        let names = ["queueSeconds", "idleSeconds", "requestSeconds", "drainSeconds"];
        let lines: String = names.map(|name| format!("{name} = {}\n", i64::MAX)).concat();
        let limits = settings(&format!("[serve]\nroot = /srv\n{lines}")).unwrap().limits;
        for time in [limits.queue, limits.idle, limits.request_time, limits.drain] {
            assert!(std::time::Instant::now().checked_add(time).is_some(), "{time:?}");
        }
    }

    #[test]
    fn a_name_or_a_value_that_is_wrong_is_an_error() {
        for (text, part) in [
            ("[serve]\nroot = /srv\nmaxFetch = 1\n", "serve.maxfetch"),
            ("[serve]\nmaxFetches = 1\n", "--root"),
            ("[serve]\nroot = /srv\nmaxFetches = x\n", "maxfetches"),
            ("[serve]\nroot = /srv\nmetrics = here\n", "'here'"),
            ("[serve\n", "bad config line"),
            ("[serve]\nroot = /srv\nrequestSeconds = 0\n", "serve.requestseconds must be at least 1, not 0"),
            ("[serve]\nroot = /srv\nmaxFetches = -1\n", "serve.maxfetches must be at least 1, not -1"),
            ("[serve]\nroot = /srv\nrate = 0\n", "serve.rate must be at least 1, not 0"),
        ] {
            let error = settings(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
