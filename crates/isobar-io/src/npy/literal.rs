//! A parser of the Python literals that `.npy` headers hold: dictionaries, tuples and strings.

/// Returns the entries of a dictionary with string keys; values are returned as text.
pub(super) fn dictionary(text: &str) -> Option<Vec<(&str, &str)>> {
    let entry = |entry| match split(entry, b':')?[..] {
        [key, value] if !value.is_empty() => Some((string(key)?, value)),
        _ => None,
    };
    items(text.trim().strip_prefix('{')?.strip_suffix('}')?)?.into_iter().map(entry).collect()
}

/// Returns the items of a tuple as text.
pub(super) fn tuple(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let items = items(inside)?;
    // (1) is a number in parentheses.
    (items.len() != 1 || inside.trim_end().ends_with(',')).then_some(items)
}

/// Returns the content of a string without escapes.
pub(super) fn string(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|quote| "'\"".contains(*quote))?;
    let inside = text.get(1..)?.strip_suffix(quote)?;
    (!inside.contains([quote, '\\'])).then_some(inside)
}

/// Splits at commas; a trailing comma is allowed.
fn items(text: &str) -> Option<Vec<&str>> {
    let mut items = split(text, b',')?;
    items.pop_if(|last| last.is_empty());
    items.iter().all(|item| !item.is_empty()).then_some(items)
}

/// Splits at separators outside brackets and strings; `None` if a bracket or a quote is not closed.
fn split(text: &str, separator: u8) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut closing = Vec::new();
    let (mut start, mut quote) = (0, None);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if quote.is_some() => drop(bytes.next()),
            _ if quote.is_some() => quote = quote.filter(|&quote| quote != byte),
            b'\'' | b'"' => quote = Some(byte),
            b'(' => closing.push(b')'),
            b'[' => closing.push(b']'),
            b'{' => closing.push(b'}'),
            b')' | b']' | b'}' if closing.pop() != Some(byte) => return None,
            _ if byte == separator && closing.is_empty() => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    (closing.is_empty() && quote.is_none()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_as_headers_hold_them() {
        let text = "{'descr': [('a,:', '<f8', (2,)), (\"}\", '<i4')], 'fortran_order': False, \"shape\": (3, 4), } ";
        let entries = dictionary(text).unwrap();
        assert_eq!(entries[0], ("descr", "[('a,:', '<f8', (2,)), (\"}\", '<i4')]"));
        assert_eq!(entries[1..], [("fortran_order", "False"), ("shape", "(3, 4)")]);
        assert_eq!(dictionary("{}").unwrap(), []);
        assert_eq!(dictionary(r"{'a': 'it\'s, so'}").unwrap(), [("a", r"'it\'s, so'")]);
        for wrong in
            ["", "{", "[]", "{'a'}", "{'a': }", "{a: 1}", "{'a': 1,, }", "{'a': (]}", "{'a': '}", "{'a': 1: 2}", "{,}"]
        {
            assert!(dictionary(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn tuples_of_any_length() {
        assert_eq!(tuple("()").unwrap(), [""; 0]);
        assert_eq!(tuple("(24,)").unwrap(), ["24"]);
        assert_eq!(tuple("( 2 ,3, 4 )").unwrap(), ["2", "3", "4"]);
        assert!(
            tuple("(24)").is_none() && tuple("24").is_none() && tuple("[2, 3]").is_none() && tuple("(,)").is_none()
        );
    }

    #[test]
    fn strings_of_either_quote() {
        assert_eq!((string("'<f8'"), string("\"|b1\""), string("''")), (Some("<f8"), Some("|b1"), Some("")));
        for wrong in ["", "'", "f8", "'a\"", "'a' 'b'", r"'\x41'"] {
            assert!(string(wrong).is_none(), "{wrong}");
        }
    }
}
