//! Reads options from the tree of a case.
//!
//! It has its own deserialiser for three reasons: a list of the wrong length is an error (serde would ignore extra entries),
//! errors know their position down to the entry of a list, and errors are data, which `explain` turns into text.

use std::fmt::{self, Display};
use std::ops::Range;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_spanned::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::text::one_line;

/// A key or value of the tree with its position.
pub(crate) type Node<'t> = Spanned<DeValue<'t>>;

/// The reason why a value cannot be read.
#[derive(Debug)]
pub(crate) struct ReadError {
    pub(crate) problem: Problem,
    /// The position of the value at fault; set once the error has left that value.
    pub(crate) place: Option<Place>,
    /// The path from the section to the value, `.key` and `[index]`, innermost first.
    steps: Vec<String>,
}

/// The value at fault.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) span: Range<usize>,
    /// The value, in words.
    pub(crate) found: String,
}

/// The problem with a value.
#[derive(Debug)]
pub(crate) enum Problem {
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    UnknownChoice {
        value: String,
        known: &'static [&'static str],
    },
    MissingKey(&'static str),
    /// The value should be of this type, in serde's words.
    Type(String),
    /// The value is neither a string nor a table with one key, so none of these choices.
    Form(&'static [&'static str]),
    /// A choice without its value, or with a value that it does not take.
    Value {
        choice: String,
        wanted: bool,
    },
    Entries {
        found: usize,
        wanted: String,
    },
    Message(String),
}

impl ReadError {
    fn new(problem: Problem) -> Self {
        Self { problem, place: None, steps: Vec::new() }
    }

    fn at(mut self, node: &Node<'_>) -> Self {
        self.place.get_or_insert_with(|| Place { span: node.span(), found: in_words(node.get_ref()) });
        self
    }

    fn below(mut self, step: String) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns the dotted path of the value; `section` is that of the section.
    pub(crate) fn path(&self, section: &str) -> String {
        let steps: String = self.steps.iter().rev().map(String::as_str).collect();
        format!("{section}{steps}")
    }
}

/// Describes a value in the user's words.
pub(crate) fn in_words(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string \"{}\"", one_line(text)),
        DeValue::Integer(number) => format!("the whole number {}", one_line(&number.to_string())),
        DeValue::Float(number) => format!("the number {}", one_line(&number.to_string())),
        DeValue::Boolean(value) => format!("the boolean {value}"),
        DeValue::Datetime(when) => match (when.date, when.time) {
            (None, _) => format!("the time {when}"),
            _ => format!("the date {when}"),
        },
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a section".to_owned(),
    }
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.problem)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(Problem::Message(message.to_string()))
    }

    fn invalid_type(_found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Type(expected.to_string()))
    }

    fn invalid_value(_found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Type(expected.to_string()))
    }

    fn invalid_length(found: usize, expected: &dyn de::Expected) -> Self {
        Self::new(Problem::Entries { found, wanted: expected.to_string() })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownKey { key: key.to_owned(), known })
    }

    fn unknown_variant(value: &str, known: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownChoice { value: value.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Problem::MissingKey(key))
    }
}

/// Reads one value.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'d, 't> {
    node: &'d Node<'t>,
    /// Keys that another function reads.
    apart: &'d [&'d str],
}

impl<'d, 't> Reader<'d, 't> {
    pub(crate) fn new(node: &'d Node<'t>, apart: &'d [&'d str]) -> Self {
        Self { node, apart }
    }

    fn inner(node: &'d Node<'t>) -> Self {
        Self { node, apart: &[] }
    }

    fn fail<T>(&self, problem: Problem) -> Result<T, ReadError> {
        Err(ReadError::new(problem).at(self.node))
    }
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let expected = |visitor: &V| Problem::Type((visitor as &dyn de::Expected).to_string());
        let read = match self.node.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                if let Ok(number) = i64::from_str_radix(digits, radix) {
                    visitor.visit_i64(number)
                } else if let Ok(number) = u64::from_str_radix(digits, radix) {
                    visitor.visit_u64(number)
                } else {
                    // Too large for an integer, but a float may be expected.
                    match digits.parse() {
                        Ok(number) => visitor.visit_f64(number),
                        Err(_) => self.fail(expected(&visitor)),
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => self.fail(expected(&visitor)),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            // No key takes a date.
            DeValue::Datetime(_) => self.fail(expected(&visitor)),
            DeValue::Array(items) => visitor.visit_seq(Items { rest: items.iter().enumerate() }),
            DeValue::Table(table) => {
                visitor.visit_map(Members { rest: Box::new(members(table, self.apart)), value: None })
            }
        };
        read.map_err(|error| error.at(self.node))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    /// Rejects a list, which serde would accept as the members in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.node.get_ref() {
            DeValue::Array(_) => self.fail(Problem::Type(format!("struct {name}"))),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, wanted: usize, visitor: V) -> Result<V::Value, ReadError> {
        match self.node.get_ref() {
            DeValue::Array(items) if items.len() != wanted => {
                self.fail(Problem::Entries { found: items.len(), wanted: wanted.to_string() })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        choices: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let choice = match self.node.get_ref() {
            DeValue::String(choice) => Choice { choice, value: None },
            DeValue::Table(table) if table.len() == 1 => match table.iter().next() {
                Some((key, value)) => Choice { choice: key.get_ref(), value: Some(value) },
                None => return self.fail(Problem::Form(choices)),
            },
            _ => return self.fail(Problem::Form(choices)),
        };
        visitor.visit_enum(choice).map_err(|error| error.at(self.node))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple_struct map identifier ignored_any
    }
}

/// The entries of a list.
struct Items<'d, 't> {
    rest: std::iter::Enumerate<std::slice::Iter<'d, Node<'t>>>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        self.rest
            .next()
            .map(|(n, node)| seed.deserialize(Reader::inner(node)).map_err(|error| error.below(format!("[{n}]"))))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

type Member<'d, 't> = (&'d Spanned<DeString<'t>>, &'d Node<'t>);

fn members<'d, 't>(table: &'d DeTable<'t>, apart: &'d [&'d str]) -> impl Iterator<Item = Member<'d, 't>> {
    table.iter().filter(|(key, _)| !apart.contains(&key.get_ref().as_ref()))
}

/// The keys and values of a table.
struct Members<'d, 't> {
    rest: Box<dyn Iterator<Item = Member<'d, 't>> + 'd>,
    value: Option<Member<'d, 't>>,
}

impl<'de> MapAccess<'de> for Members<'de, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        self.value = self.rest.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        let deserializer: StrDeserializer<'_, ReadError> = key.get_ref().as_ref().into_deserializer();
        seed.deserialize(deserializer).map(Some).map_err(|mut error| {
            error.place.get_or_insert(Place { span: key.span(), found: "a key".to_owned() });
            error
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some((key, node)) = self.value.take() else {
            return Err(de::Error::custom("a value was read before its key"));
        };
        seed.deserialize(Reader::inner(node)).map_err(|error| error.below(format!(".{}", key.get_ref())))
    }
}

/// `"choice"` or `{ choice = value }`.
struct Choice<'d, 't> {
    choice: &'d str,
    value: Option<&'d Node<'t>>,
}

impl Choice<'_, '_> {
    fn misuse<T>(&self) -> Result<T, ReadError> {
        let choice = self.choice.to_owned();
        Err(ReadError::new(Problem::Value { choice, wanted: self.value.is_none() }))
    }
}

impl<'de, 't> EnumAccess<'de> for Choice<'de, 't> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ReadError> {
        let deserializer: StrDeserializer<'_, ReadError> = self.choice.into_deserializer();
        Ok((seed.deserialize(deserializer)?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de, '_> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        if self.value.is_none() { Ok(()) } else { self.misuse() }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        match self.value {
            Some(node) => {
                seed.deserialize(Reader::inner(node)).map_err(|error| error.below(format!(".{}", self.choice)))
            }
            None => self.misuse(),
        }
    }

    // No choice of a case has several values, or keys.
    fn tuple_variant<V: Visitor<'de>>(self, _wanted: usize, _visitor: V) -> Result<V::Value, ReadError> {
        self.misuse()
    }

    fn struct_variant<V: Visitor<'de>>(self, _keys: &'static [&'static str], _: V) -> Result<V::Value, ReadError> {
        self.misuse()
    }
}
