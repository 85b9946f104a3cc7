//! Makes text that others wrote safe to show: subjects of commits, values of parameters, names of files and functions,
//! and what programs said.

/// Returns text in one line for a terminal: control characters, line breaks and characters that change the direction of
/// writing become escapes such as `\u{1b}`.
pub fn shown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) {
            safe.extend(letter.escape_default());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Returns text like [`shown`], but keeps its line feeds.
pub fn shown_lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// Returns text like [`shown`], with a backslash before each character that Markdown would take for HTML, code,
/// emphasis, a heading, a list without numbers, a table or a link.
pub fn shown_in_markdown(text: &str) -> String {
    let text: Vec<char> = shown(text).chars().collect();
    let mut safe = String::with_capacity(text.len());
    for (place, letter) in text.iter().enumerate() {
        let (before, after) = (&text[..place], &text[place + 1..]);
        let is_marked = match letter {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '&' | '#' | '~' | '|' => true,
            // An underscore within a word is no emphasis.
            '_' => {
                let is_in_word = |side: Option<&char>| side.is_some_and(|letter| letter.is_alphanumeric());
                !(is_in_word(before.last()) && is_in_word(after.first()))
            }
            '-' | '+' | '=' => before.is_empty(),
            // Many programs make links of bare addresses too.
            ':' => after.starts_with(&['/', '/']),
            '.' => {
                before.len() >= 3 && before[before.len() - 3..].iter().all(|letter| letter.eq_ignore_ascii_case(&'w'))
            }
            _ => false,
        };
        if is_marked {
            safe.push('\\');
        }
        safe.push(*letter);
    }
    safe
}

/// Returns whether a character is not seen itself but acts on the terminal or on the text around it: a control
/// character, a line or paragraph separator, or one that changes the direction of writing.
pub fn is_hidden(letter: char) -> bool {
    let changes_direction =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || changes_direction || matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_as_an_escape() {
        assert_eq!(shown("é\u{1b}[2J\u{7}\u{9b}\r\na"), r"é\u{1b}[2J\u{7}\u{9b}\r\na");
        assert_eq!(shown("a\u{202e}b\u{2066}c\u{2028}"), r"a\u{202e}b\u{2066}c\u{2028}");
        assert_eq!(shown(&shown("\u{1b}")), r"\u{1b}");
        assert_eq!(shown_lines("a\u{1b}\nb\n"), "a\\u{1b}\nb\n");
    }

    #[test]
    fn what_markdown_would_take_for_more_than_text_has_a_backslash() {
        for (text, expected) in [
            ("<b>x</b> &amp;", r"\<b\>x\</b\> \&amp;"),
            ("`a` *b* __c__ ~~d~~", r"\`a\` \*b\* \_\_c\_\_ \~\~d\~\~"),
            ("[a](http://example.com) ![c](d)", r"\[a\](http\://example.com) !\[c\](d)"),
            ("see www.example.com", r"see www\.example.com"),
            ("refs_read_raw: 1.100 times (a - b)", "refs_read_raw: 1.100 times (a - b)"),
            ("- x", r"\- x"),
            ("a\nb\\", r"a\\nb\\"),
        ] {
            assert_eq!(shown_in_markdown(text), expected);
        }
    }
}
