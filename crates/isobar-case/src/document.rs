//! A case file together with its overrides, as one tree that records where every key and value came from.
//!
//! Positions are byte offsets into one virtual text: the file followed by each override. An error anywhere in
//! the tree can therefore be shown at its line or at its override.

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_spanned::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::overrides::Override;
use crate::reader::{Node, Reader};
use crate::text::{one_line, shorten};
use crate::{Error, Result, explain};

/// Deepest nesting that is accepted; a much deeper tree would exhaust the stack.
const DEEPEST: usize = 16;

/// A section of the virtual text.
struct Source<'t> {
    origin: Origin<'t>,
    start: usize,
    text: &'t str,
}

/// The origin of a section of text, with its name.
#[derive(Clone, Copy)]
enum Origin<'t> {
    File(&'t str),
    Override(&'t str),
}

/// The tree.
pub(crate) struct Document<'t> {
    sources: Vec<Source<'t>>,
    root: DeTable<'t>,
    /// Returns all keys that a case may have, for suggestions.
    keys: fn() -> Vec<String>,
}

impl<'t> Document<'t> {
    /// Parses a case file, called `name` in messages; `keys` returns all keys that a case may have.
    pub(crate) fn parse(name: &'t str, text: &'t str, keys: fn() -> Vec<String>) -> Result<Self> {
        let mut document =
            Self { sources: vec![Source { origin: Origin::File(name), start: 0, text }], root: DeTable::new(), keys };
        match DeTable::parse(text) {
            Ok(root) => document.root = root.into_inner(),
            Err(error) => {
                let too_deep = error.message().contains("recurs");
                let message = if too_deep { "nested too deeply" } else { error.message() };
                return Err(document.failure(error.span(), message, None));
            }
        }
        document.reject_non_finite()?;
        Ok(document)
    }

    /// Applies an override.
    pub(crate) fn set(&mut self, change: &'t Override) -> Result<()> {
        let Override { assignment, shown } = change;
        let option = |message: &str| Error::new(format!("{}: {message}", one_line(shown)));
        let (key, text) =
            assignment.split_once('=').ok_or_else(|| option("no \"=\"; write KEY=VALUE, as in grid.nx=256"))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(option("no value after \"=\"; write KEY=VALUE, as in grid.nx=256"));
        }
        if key.split('.').count() > DEEPEST {
            return Err(option("the key has more parts than any key of a case"));
        }
        if key.split('.').any(|part| part.trim().is_empty()) {
            return Err(option("the key must be dotted names, as in solver.tolerance"));
        }
        let (sections, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
        let last = last.trim();

        let start = self.end();
        self.sources.push(Source { origin: Origin::Override(shown), start, text: assignment });
        // Each part of the key has its own position in the assignment, so that an unknown part can be marked.
        let place = |part: &str| {
            let at = start + (part.as_ptr().addr() - assignment.as_ptr().addr());
            at..at + part.len()
        };
        // Anything that is not a TOML value is a string without quotes: --set grid.geometry=box.
        let value = match DeValue::parse(text) {
            Ok(value) => shifted(value, place(text).start),
            Err(_) => Spanned::new(place(text), DeValue::String(DeString::Borrowed(text))),
        };
        let (mut table, mut path) = (&mut self.root, Vec::new());
        for section in sections.into_iter().flat_map(|path| path.split('.')).map(str::trim) {
            path.push(section);
            if !table.contains_key(section) {
                table.insert(
                    Spanned::new(place(section), DeString::Borrowed(section)),
                    Spanned::new(place(section), DeValue::Table(DeTable::new())),
                );
            }
            let path = path.join(".");
            let node = table.get_mut(section);
            table = match node.map(|node| expanded(node, &path).get_mut()) {
                Some(DeValue::Table(inner)) => inner,
                _ => {
                    let message = format!("{section} is a value in the case, not a section; change {path} as a whole");
                    return Err(option(&message));
                }
            };
        }
        table.remove(last);
        table.insert(Spanned::new(place(last), DeString::Borrowed(last)), value);
        self.reject_non_finite()
    }

    /// Moves all keys into one section, unless the document consists of that section already.
    pub(crate) fn put_below(&mut self, section: &'static str) {
        let is_below = self.root.len() == 1 && self.root.get(section).is_some_and(|node| node.get_ref().is_table());
        if !is_below {
            let inner = std::mem::take(&mut self.root);
            let key = Spanned::new(0..0, DeString::Borrowed(section));
            self.root.insert(key, Spanned::new(0..0, DeValue::Table(inner)));
        }
    }

    fn end(&self) -> usize {
        self.sources.last().map_or(0, |source| source.start + source.text.len() + 1)
    }

    /// Returns the top-level sections in the file's order.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&Spanned<DeString<'t>>, &Node<'t>)> {
        self.root.iter()
    }

    /// Returns the value at a dotted key.
    pub(crate) fn get(&self, path: &str) -> Option<&Node<'t>> {
        let mut table = &self.root;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let node = table.get(part)?;
            if parts.peek().is_none() {
                return Some(node);
            }
            table = node.get_ref().as_table()?;
        }
        None
    }

    /// Reads a section into its options. A missing section is an empty one.
    pub(crate) fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.read_without(path, &[])
    }

    /// Reads a section without the keys that the caller reads itself.
    pub(crate) fn read_without<T: DeserializeOwned>(&self, path: &str, apart: &[&str]) -> Result<T> {
        let empty = Spanned::new(0..0, DeValue::Table(DeTable::new()));
        let given = self.get(path);
        let node = given.unwrap_or(&empty);
        T::deserialize(Reader::new(node, apart)).map_err(|error| {
            let (message, help) = explain::read_error(&error, path, apart, self.keys);
            // A section that is missing has no place.
            let place = error.place.filter(|_| given.is_some());
            self.failure(place.map(|place| place.span), &message, help.as_deref())
        })
    }

    /// Makes an error at the value of a dotted key, or without a position if the case does not have the key.
    pub(crate) fn failure_at_key(&self, path: &str, message: &str) -> Error {
        match self.get(path) {
            Some(node) => self.failure(Some(node.span()), &format!("{path}: {message}"), None),
            None => self.failure(None, &format!("{path}: {message}"), None),
        }
    }

    /// Shows an error of the library at the key that it names.
    pub(crate) fn failure_of(&self, error: isobar::Error) -> Error {
        match error {
            isobar::Error::Invalid { key, message } => self.failure_at_key(&key, &shorten(&message)),
            other => other.into(),
        }
    }

    /// Makes an error at a position: the place, the message, the line with a marker, and a help line.
    pub(crate) fn failure(&self, span: Option<Range<usize>>, message: &str, help: Option<&str>) -> Error {
        let place = span.and_then(|span| {
            let source = self.sources.iter().rev().find(|source| source.start <= span.start)?;
            Some((source, span.start - source.start..span.end.saturating_sub(source.start)))
        });
        let file = match self.sources.first().map(|source| source.origin) {
            Some(Origin::File(name)) => name,
            _ => "",
        };
        let help = help.map(|help| format!("\n  {help}")).unwrap_or_default();
        Error::new(match place {
            None => format!("{file}: {message}{help}"),
            Some((Source { origin: Origin::Override(shown), .. }, _)) => {
                format!("{}: {message}{help}", one_line(shown))
            }
            Some((Source { origin: Origin::File(file), text, .. }, span)) => {
                let shown = Excerpt::new(text, span);
                format!("{file}:{}:{}: {message}{}{help}", shown.line, shown.column, shown.text)
            }
        })
    }

    /// Rejects infinities and NaN, which TOML can write (1e999 is one).
    fn reject_non_finite(&self) -> Result<()> {
        fn find(table: &DeTable<'_>, prefix: &str) -> Option<(String, Range<usize>, String)> {
            table.iter().find_map(|(key, node)| find_in(node, &format!("{prefix}{}", key.get_ref())))
        }
        fn find_in(node: &Node<'_>, path: &str) -> Option<(String, Range<usize>, String)> {
            match node.get_ref() {
                DeValue::Float(number) => {
                    let finite = number.as_str().parse::<f64>().is_ok_and(f64::is_finite);
                    (!finite).then(|| (path.to_owned(), node.span(), number.to_string()))
                }
                DeValue::Table(table) => find(table, &format!("{path}.")),
                DeValue::Array(items) => {
                    items.iter().enumerate().find_map(|(n, item)| find_in(item, &format!("{path}[{n}]")))
                }
                _ => None,
            }
        }
        match find(&self.root, "") {
            None => Ok(()),
            Some((path, span, number)) => {
                Err(self.failure(Some(span), &format!("{path} = {number} is not a finite number"), None))
            }
        }
    }
}

/// Keys that may be a section or one value, and the key of the section that this value sets.
const SHORT: [(&str, &str); 2] = [("diffusion.boundary", "all"), ("solver.preconditioner", "kind")];

/// Replaces a value that is short for a section by the section, so that further keys of it can be set.
fn expanded<'n, 't>(node: &'n mut Node<'t>, path: &str) -> &'n mut Node<'t> {
    if let Some((_, key)) = SHORT.iter().find(|(short, _)| *short == path)
        && !node.get_ref().is_table()
    {
        let span = node.span();
        let value = std::mem::replace(node.get_mut(), DeValue::Table(DeTable::new()));
        if let DeValue::Table(table) = node.get_mut() {
            let key = Spanned::new(span.clone(), DeString::Borrowed(key));
            table.insert(key, Spanned::new(span, value));
        }
    }
    node
}

/// A line of a text with a position marked.
struct Excerpt {
    line: usize,
    column: usize,
    /// The line and a line of markers, each after a line break; empty if the line is too long.
    text: String,
}

impl Excerpt {
    fn new(text: &str, span: Range<usize>) -> Self {
        let clamp = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (clamp(span.start), clamp(span.end));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[..start].matches('\n').count() + 1;
        let column = text[line_start..start].chars().count() + 1;
        let marked = text[start..end.clamp(start, line_end)].chars().count().max(1);

        // Lines of thousands of characters occur only in files that are no cases.
        let content: String = text[line_start..line_end]
            .trim_end_matches('\r')
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let shown = if content.chars().count() > 160 {
            String::new()
        } else {
            let gutter = " ".repeat(line.to_string().len());
            format!("\n  {line} | {content}\n  {gutter} | {}{}", " ".repeat(column - 1), "^".repeat(marked))
        };
        Self { line, column, text: shown }
    }
}

/// Returns the value with its positions moved.
fn shifted<'t>(node: Node<'t>, by: usize) -> Node<'t> {
    let span = node.span();
    let value = match node.into_inner() {
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, value)| {
                    let span = key.span();
                    (Spanned::new(span.start + by..span.end + by, key.into_inner()), shifted(value, by))
                })
                .collect(),
        ),
        DeValue::Array(items) => DeValue::Array(items.into_iter().map(|item| shifted(item, by)).collect()),
        other => other,
    };
    Spanned::new(span.start + by..span.end + by, value)
}
