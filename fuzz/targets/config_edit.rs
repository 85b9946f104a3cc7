//! Another format of refs in a configuration: all else says what it said.
#![no_main]

use bstr::BStr;
use refdb::{Config, RefFormat, with_ref_format};
use std::path::Path;

fn others(config: &Config) -> Vec<(&BStr, Option<&BStr>)> {
    let is_other = |key: &BStr| key != "core.repositoryformatversion" && key != "extensions.refstorage";
    let values = config.iter().filter(|value| is_other(value.key));
    values.map(|value| (value.key, value.raw)).collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = Path::new("config");
    let Ok(before) = Config::parse(bytes, file) else { return };
    for to in [RefFormat::Reftable, RefFormat::Files] {
        let Ok(text) = with_ref_format(bytes, to, Path::new("/"), file) else { continue };
        let after = Config::parse(&text, file).expect("what was written can be read");
        assert_eq!(others(&before), others(&after));
        let again = with_ref_format(&text, to, Path::new("/"), file).expect("what was written can be changed");
        assert_eq!(again, text);
    }
});
