//! Another server, which runs already, beside `refdb serve`.

use crate::{
    Options, lists,
    polls::{self, Way},
    pushes::{self, Push},
    repository::Repository,
    rows::milliseconds,
    server::Target,
    usage::Usage,
};
use anyhow::{Context, Result};

/// The server that the options name, if any.
pub(crate) struct Rival {
    name: String,
    target: Target,
    proxy: Option<Usage>,
    is_daemon: bool,
}

impl Rival {
    pub(crate) fn of(options: &Options) -> Result<Option<Self>> {
        let Some(address) = &options.address else { return Ok(None) };
        let usage = Usage::Group(options.usage.clone().context("--address needs --usage")?);
        let is_daemon = address.starts_with("git://");
        let address = address.trim_start_matches("git://").to_owned();
        let name = options.name.clone().unwrap_or_else(|| address.clone());
        let proxy = options.proxy_usage.clone().map(Usage::Group);
        Ok(Some(Rival { name, target: Target { address, usage }, proxy, is_daemon }))
    }

    /// Measures the server, and prints a line. What it does not do is left out.
    pub(crate) fn measure(&self, options: &Options, repository: &Repository) -> Result<()> {
        let ways: &[_] = if self.is_daemon { &[Way::Daemon] } else { &[Way::Kept, Way::New] };
        let (mut rates, mut proxy) = (Vec::new(), String::new());
        // These polls are not counted: a Java machine first compiles what it does often.
        polls::rate(options, &self.target, repository, ways[0])?;
        for way in ways {
            let before = self.proxy.as_ref().map(Usage::cpu).transpose()?;
            let polls = polls::rate(options, &self.target, repository, *way)?;
            rates.push(format!("{:.0} ({:.2})", polls.a_second(), milliseconds(polls.p99)));
            if let (Some(usage), Some(before)) = (&self.proxy, before) {
                proxy = format!("{:.0}", (usage.cpu()? - before).as_secs_f64() * 1e6 / polls.count as f64);
            }
        }
        if self.is_daemon {
            rates.insert(0, String::new());
        }
        let (list, first) = lists::one(options, &self.target, repository, self.is_daemon)?;
        let push = |push| -> Result<String> {
            if self.is_daemon {
                return Ok(String::new());
            }
            Ok(pushes::over_http(options, &self.target, repository, push)?.to_string())
        };
        println!(
            "| {} | {} | {proxy} | {:.3} | {:.1} | {} | {} |",
            self.name,
            rates.join(" | "),
            list.as_secs_f64(),
            milliseconds(first),
            push(Push::Existing)?,
            push(Push::New)?,
        );
        Ok(())
    }
}
