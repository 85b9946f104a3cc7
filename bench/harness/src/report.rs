//! The tables, in Markdown. A ratio at which refdb loses, or a target that it misses, is marked, never left out.

use std::fmt::Write;

use crate::{
    job::Reach,
    record::Setting,
    run::{Figures, Row},
    seed::Format,
    writers::{Outcome, Side},
};

/// The description of the setting and all tables as one text.
pub fn text(setting: &Setting, rows: &[Row], races: &[Outcome]) -> String {
    let mut out = format!(
        "refdb {} beside git {}, size {}; {}, Linux {}.\nM: {}.\nWall: refdb's time over git's, runs in \
         turn, the median of the pairs and the quartiles.\n",
        setting.refdb,
        setting.git,
        setting.size.name,
        setting.processor,
        setting.kernel,
        setting.measure.describe()
    );
    for format in [Format::Reftable, Format::Files] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.is(format)).collect();
        if !rows.is_empty() {
            writeln!(out, "\n## {}\n", format.name()).ok();
            table(&mut out, &rows);
        }
    }
    if !races.is_empty() {
        out.push_str("\n## Many writers\n\n");
        race_table(&mut out, races);
    }
    out
}

fn table(out: &mut String, rows: &[&Row]) {
    line(
        out,
        &["job", "refdb M", "git M", "part", "reach", "floor M", "wall", "git ms", "kernel s", "peak MiB", "calls"],
    );
    line(out, &["-"; 11]);
    for row in rows {
        let own = row.own.as_ref().ok();
        let title = format!("`{}` {}{}", row.job, row.title, if row.disk == "ext4" { ", ext4" } else { "" });
        let both = |figure: &dyn Fn(&Figures) -> Option<String>| {
            let of = |figures: Option<&Figures>| figures.and_then(figure).unwrap_or_else(|| "?".to_owned());
            format!("{} / {}", of(own), of(Some(&row.git)))
        };
        let part = own.and_then(|own| Some(own.millions? / row.git.millions?));
        line(
            out,
            &[
                title,
                match &row.own {
                    Ok(figures) => millions(figures),
                    Err(error) => format!("fails: {}", error.replace('|', "/")),
                },
                millions(&row.git),
                part.map_or_else(String::new, |part| lost(part, format!("{}{part:.3}", at_most(row)))),
                verdict(row),
                row.floor.map_or_else(String::new, number),
                row.wall.map_or_else(String::new, |wall| {
                    let text = format!("{:.3} ({:.3}-{:.3}, {})", wall.median, wall.low, wall.high, wall.count);
                    lost(wall.median, format!("{}{text}", at_most(row)))
                }),
                format!("{}{}", at_least(&row.git), number(row.git.wall * 1e3)),
                both(&|figures| Some(format!("{:.3}", figures.system))),
                both(&|figures| Some(number(figures.peak))),
                both(&|figures| figures.syscalls.map(|calls| calls.to_string())),
            ],
        );
    }
}

fn millions(figures: &Figures) -> String {
    figures.millions.map_or_else(|| "?".to_owned(), |count| format!("{}{}", at_least(figures), number(count)))
}

/// Marks the figures of a command that was ended at the limit.
fn at_least(figures: &Figures) -> &'static str {
    if figures.cut { "> " } else { "" }
}

/// Marks a ratio to git's figures if git was ended at the limit.
fn at_most(row: &Row) -> &'static str {
    if row.git.cut { "< " } else { "" }
}

/// Marks `text` if refdb's figure, as a part of git's, is more than 1.
fn lost(part: f64, text: String) -> String {
    if part > 1.0 { format!("**{text} LOSES**") } else { text }
}

/// Each target of the row, and whether it is met.
fn verdict(row: &Row) -> String {
    let Reach { millions, part, wall, peak } = row.reach;
    let own = row.own.as_ref().ok();
    let own_millions = own.and_then(|own| own.millions);
    let own_part = own_millions.zip(row.git.millions).map(|(own, git)| own / git);
    let goals = [
        (millions, own_millions, " M"),
        (part, own_part, " of git's M"),
        (wall, row.wall.map(|wall| wall.median), " of git's wall"),
        (peak, own.map(|own| own.peak), " MiB"),
    ];
    let judge = |(goal, found, unit): (Option<f64>, Option<f64>, &str)| {
        let goal = goal?;
        let word = match found {
            Some(found) if found <= goal => "met",
            Some(_) => "**MISSED**",
            None => "not measured",
        };
        Some(format!("<= {}{unit}: {word}", number(goal)))
    };
    goals.into_iter().filter_map(judge).collect::<Vec<_>>().join(", ")
}

fn race_table(out: &mut String, races: &[Outcome]) {
    let titles = [
        "race",
        "format",
        "lock timeout",
        "applied a second",
        "failed writers",
        "committed",
        "lost",
        "slowest / fastest",
        "most tables",
    ];
    line(out, &titles);
    line(out, &["-"; 9]);
    for race in races {
        line(
            out,
            &[
                format!("`{}`", race.race),
                race.format.to_owned(),
                if race.patient { "-1" } else { "default" }.to_owned(),
                number(race.rate),
                sides(race, |side| format!("{} of {}", side.failed, side.writers)),
                format!("{} of {}", race.own.committed + race.git.committed, race.asked),
                if race.lost == 0 { "0".to_owned() } else { format!("**{} LOST**", race.lost) },
                sides(race, |side| side.unfairness.map_or_else(|| "?".to_owned(), |ratio| format!("{ratio:.2}"))),
                if race.tables == 0 { String::new() } else { race.tables.to_string() },
            ],
        );
    }
    let rate = |id: &str| races.iter().find(|race| race.race == id).map(|race| race.rate);
    if let (Some(own), Some(git)) = (rate("s6"), rate("s6-git")) {
        writeln!(out, "\nrefdb applies {:.1} times git's updates a second with reftable (reach: >= 3).", own / git)
            .ok();
    }
    for race in races {
        for said in [("refdb", &race.own.said), ("git", &race.git.said)] {
            if let (name, Some(said)) = said {
                writeln!(out, "\n`{}`: a {name} writer failed: {said}", race.race).ok();
            }
        }
    }
}

fn sides(race: &Outcome, say: impl Fn(&Side) -> String) -> String {
    let sides = [("refdb", &race.own), ("git", &race.git)];
    let there = sides.into_iter().filter(|(_, side)| side.writers > 0);
    there.map(|(name, side)| format!("{name} {}", say(side))).collect::<Vec<_>>().join(", ")
}

fn line<S: AsRef<str>>(out: &mut String, cells: &[S]) {
    for cell in cells {
        write!(out, "| {} ", cell.as_ref()).ok();
    }
    out.push_str("|\n");
}

/// Two decimals below 10, one below 100, and from there on a whole number with its thousands grouped.
fn number(value: f64) -> String {
    if value >= 100.0 {
        let digits = format!("{value:.0}");
        let mut grouped = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        grouped
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_three_digits_and_grouped_thousands() {
        assert_eq!(number(1_234_567.2), "1,234,567");
        assert_eq!(number(345.8), "346");
        assert_eq!(number(16.84), "16.8");
        assert_eq!(number(0.05), "0.05");
    }
}
