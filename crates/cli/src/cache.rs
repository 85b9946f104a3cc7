//! `refdb cache`: inspects, verifies, compacts, exports and imports a persistent cache. A server may use the cache
//! meanwhile, except during `import` and `compact`.

mod look;
mod stat;
mod transfer;

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message, say},
    options::{Command, Opt, Parser, Value, Word},
};
use bstr::{BStr, ByteSlice};
use refdb_kvcache::{Cache, Key};
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

pub static COMMAND: Command = Command {
    program: "refdb",
    name: "cache",
    about: "Inspect, verify, compact, export or import a persistent cache",
    synopsis: &[
        "stat [--json] FOLDER",
        "verify FOLDER",
        "top [--count=N] [--key-file=FILE] FOLDER",
        "compact [--limit=BYTES] [--key-file=FILE] FOLDER",
        "export [--key-file=FILE] [--secrets] FOLDER",
        "import --limit=BYTES [--key-file=FILE] FOLDER",
    ],
    options: &[
        Opt::flag("json", "print JSON"),
        Opt::flag("count", "number of entries to show").fixed().takes(Value::Required("N")),
        Opt::flag("limit", "size limit of the cache in bytes").fixed().takes(Value::Required("BYTES")),
        Opt::flag("key-file", "file that contains the 32-byte key in hexadecimal")
            .fixed()
            .takes(Value::Required("FILE")),
        Opt::flag("secrets", "export a cache in the clear that is encrypted or holds sessions or tokens").fixed(),
    ],
};

/// The values of the options.
#[derive(Default)]
struct Settings {
    json: bool,
    count: Option<u64>,
    limit: Option<u64>,
    key: Option<Key>,
    secrets: bool,
}

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let mut parser = Parser::new(&COMMAND, invocation.words);
    let (mut settings, mut arguments) = (Settings::default(), Vec::new());
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(argument) => arguments.push(argument),
            Word::Option(opt, setting) => match (opt.name, setting.value()) {
                ("count", Some(value)) => settings.count = Some(number("count", value)?),
                ("limit", Some(value)) => settings.limit = Some(number("limit", value)?),
                ("key-file", Some(value)) => settings.key = Some(read_key(&path(value))?),
                ("secrets", _) => settings.secrets = true,
                ("json", _) => settings.json = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    let [action, folder] = arguments[..] else { return Err(COMMAND.wrong_use(None)) };
    let folder = path(folder);
    match action.as_bytes() {
        b"stat" => stat::run(&folder, settings.json),
        b"verify" => look::verify(&folder),
        b"top" => look::top(&folder, &settings),
        b"compact" => look::compact(&folder, &settings),
        b"export" => transfer::export(&folder, &settings),
        b"import" => transfer::import(&folder, &settings),
        other => Err(COMMAND.wrong_use(Some(message!["unknown action '", other, "'"]))),
    }
}

fn path(bytes: &BStr) -> PathBuf {
    bytes.to_path_lossy().into_owned()
}

fn number(option: &str, value: &BStr) -> Result<u64> {
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| COMMAND.wrong_use(Some(message!["option `", option, "' expects a number, not '", value, "'"])))
}

fn read_key(file: &Path) -> Result<Key> {
    let shown = file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return fatal!["cannot read the key in '", shown, "': ", crate::failure::system_text(&error)],
    };
    let digits = text.trim().as_bytes();
    let mut key = [0; 32];
    let pairs =
        digits.chunks(2).map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
    let is_hex = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
    for (byte, pair) in key.iter_mut().zip(pairs) {
        *byte = pair.unwrap_or_default();
    }
    if !is_hex {
        return fatal!["the key in '", shown, "' is not 64 hexadecimal digits"];
    }
    Ok(Key::new(key))
}

/// Reports what was wrong with the files when the cache was opened, such as lost entries. No other report counts lost
/// entries as damaged, because they no longer exist.
fn say_lost(cache: &Cache) {
    for notice in cache.notices() {
        say("warning: ", notice.to_string().as_bytes());
    }
}

impl From<refdb_kvcache::Error> for Failure {
    fn from(error: refdb_kvcache::Error) -> Self {
        Failure::Fatal(error.to_string().into())
    }
}

/// Returns whether a cache holds secrets: it is encrypted, or a folder of its path has the name of a cache of Gerrit
/// whose keys are cookies or whose values are tokens.
fn is_secret(folder: &Path) -> Result<bool> {
    const SECRET: [&str; 2] = ["web_sessions", "oauth_tokens"];
    // Both the given path and the real one are checked, because the given one may be a symbolic link with another name.
    let full = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mut parts = folder.components().chain(full.components());
    let named = parts.any(|part| SECRET.iter().any(|name| part.as_os_str() == *name));
    Ok(named || Cache::is_encrypted(folder)?)
}

/// Fails if root uses another user's cache or would make a new one in that user's folder, because the user's server
/// could not read files that root makes.
fn refuse_another_users(folder: &Path) -> Result<()> {
    let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(owner) = full.ancestors().find_map(|place| Some(std::fs::metadata(place).ok()?.uid())) else {
        return Ok(());
    };
    if refdb_vfs::effective_user() == 0 && owner != 0 {
        return fatal![
            "'",
            folder.display().to_string(),
            "' belongs to user ",
            owner.to_string(),
            ", who could not read what root writes there; run this as that user"
        ];
    }
    Ok(())
}
