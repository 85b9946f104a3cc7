//! The change of the ref format that a configuration file states: every other setting keeps its value.
#![no_main]

use bstr::BStr;
use refdb::{Config, RefFormat, with_ref_format};
use std::path::Path;

const OWN: [&str; 3] = ["core.repositoryformatversion", "extensions.refstorage", "extensions.objectformat"];

fn others(config: &Config) -> Vec<(&BStr, Option<&BStr>)> {
    let is_other = |key: &BStr| !OWN.iter().any(|own| key == own);
    let values = config.iter().filter(|value| is_other(value.key));
    values.map(|value| (value.key, value.raw)).collect()
}

fn last<'c>(config: &'c Config, key: &str) -> Option<&'c BStr> {
    config.iter().filter(|value| value.key == key).last().and_then(|value| value.raw)
}

/// Whether SHA-256 is in effect. The setting has no effect without a format version, and must have none afterwards
/// either.
fn other_hash(config: &Config) -> bool {
    last(config, OWN[0]).is_some() && last(config, OWN[2]).is_some_and(|hash| hash == "sha256")
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = Path::new("config");
    let Ok(before) = Config::parse(bytes, file) else { return };
    for to in [RefFormat::Reftable, RefFormat::Files] {
        let Ok(text) = with_ref_format(bytes, to, Path::new("/"), file) else { continue };
        let after = Config::parse(&text, file).expect("what was written can be read");
        assert_eq!(others(&before), others(&after));
        assert_eq!(other_hash(&before), other_hash(&after));
        let again = with_ref_format(&text, to, Path::new("/"), file).expect("what was written can be changed");
        assert_eq!(again, text);
    }
});
