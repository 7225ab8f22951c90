//! JSON text, read by the rules and with the error messages of Go's parser.
//!
//! The nesting is bounded well below what a stack can take, and so that what is stored can be read
//! again by parsers with limits of their own.

use super::raw::Raw;

/// How deep lists and objects may nest.
pub(crate) const MAX_DEPTH: usize = 100;

/// Reads a whole text. The error is Go's sentence.
pub(crate) fn parse(text: &[u8]) -> Result<Raw, String> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let value = parser.value()?;
    match parser.next_token() {
        None => Ok(value),
        Some(found) => Err(unexpected(found, "after top-level value")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn unexpected(found: u8, context: &str) -> String {
    let shown = match found {
        b'\'' => r"'\''".to_owned(),
        b'"' => r#"'"'"#.to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0..0x20 | 0x7f => format!(r"'\x{found:02x}'"),
        0x80..0xa0 => format!(r"'\u{found:04x}'"),
        _ => format!("'{}'", char::from(found)),
    };
    format!("invalid character {shown} {context}")
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte that is not space, which stays there.
    fn next_token(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek()
    }

    fn value(&mut self) -> Result<Raw, String> {
        let first = self.next_token().ok_or_else(end)?;
        match first {
            b'{' => self.nested(first, Self::object),
            b'[' => self.nested(first, Self::list),
            b'"' => self.string().map(Raw::String),
            b't' => self.literal("true", Raw::Bool(true)),
            b'f' => self.literal("false", Raw::Bool(false)),
            b'n' => self.literal("null", Raw::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(unexpected(first, "looking for beginning of value")),
        }
    }

    fn nested(
        &mut self,
        opening: u8,
        inner: fn(&mut Self) -> Result<Raw, String>,
    ) -> Result<Raw, String> {
        if self.depth == MAX_DEPTH {
            return Err(unexpected(opening, "exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Raw, String> {
        let mut fields = Vec::new();
        if self.next_token() == Some(b'}') {
            self.at += 1;
            return Ok(Raw::Object(fields));
        }
        loop {
            match self.next_token().ok_or_else(end)? {
                b'"' => {}
                other => {
                    return Err(unexpected(other, "looking for beginning of object key string"));
                }
            }
            let name = self.string()?;
            match self.next_token().ok_or_else(end)? {
                b':' => self.at += 1,
                other => return Err(unexpected(other, "after object key")),
            }
            fields.push((name, self.value()?));
            match self.next_token().ok_or_else(end)? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Raw::Object(fields));
                }
                other => return Err(unexpected(other, "after object key:value pair")),
            }
        }
    }

    fn list(&mut self) -> Result<Raw, String> {
        let mut items = Vec::new();
        if self.next_token() == Some(b']') {
            self.at += 1;
            return Ok(Raw::List(items));
        }
        loop {
            items.push(self.value()?);
            match self.next_token().ok_or_else(end)? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Raw::List(items));
                }
                other => return Err(unexpected(other, "after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Raw) -> Result<Raw, String> {
        for expected in word.bytes() {
            match self.peek().ok_or_else(end)? {
                found if found == expected => self.at += 1,
                found => {
                    let expected = char::from(expected);
                    let context = format!("in literal {word} (expecting '{expected}')");
                    return Err(unexpected(found, &context));
                }
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Raw, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek().ok_or_else(end)? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            other => return Err(unexpected(other, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(Raw::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        match self.peek().ok_or_else(end)? {
            b'0'..=b'9' => {
                self.digits();
                Ok(())
            }
            other => Err(unexpected(other, context)),
        }
    }

    /// A string, from its opening quote on. What is not UTF-8, and halves of surrogate pairs,
    /// become the replacement character.
    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..0x20)) {
                self.at += 1;
            }
            text.push_str(&String::from_utf8_lossy(&self.text[start..self.at]));
            match self.peek().ok_or_else(end)? {
                b'"' => {
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => {
                    self.at += 1;
                    let escaped = self.escape()?;
                    text.push(escaped);
                }
                control => return Err(unexpected(control, "in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let kind = self.peek().ok_or_else(end)?;
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hexadecimal()?;
                self.scalar(unit)?
            }
            other => return Err(unexpected(other, "in string escape code")),
        })
    }

    fn scalar(&mut self, unit: u32) -> Result<char, String> {
        if let Some(scalar) = char::from_u32(unit) {
            return Ok(scalar);
        }
        let low_half_follows = unit < 0xdc00 && self.text[self.at..].starts_with(br"\u");
        if !low_half_follows {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let before = self.at;
        self.at += 2;
        let low = self.hexadecimal()?;
        if (0xdc00..0xe000).contains(&low) {
            let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = before;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().ok_or_else(end)?;
            let Some(value) = char::from(digit).to_digit(16) else {
                return Err(unexpected(digit, r"in \u hexadecimal character escape"));
            };
            unit = unit * 16 + value;
            self.at += 1;
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn errors_read_as_in_go() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a":}"#, "invalid character '}' looking for beginning of value"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a":1 "b""#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("1.a", "invalid character 'a' after decimal point in numeric literal"),
            ("1ea", "invalid character 'a' in exponent of numeric literal"),
            ("nul!", "invalid character '!' in literal null (expecting 'l')"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u00g0""#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text.as_bytes()), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn values_are_those_of_serde_json() {
        let texts = [
            r#"{"a": [1, -2.5, 1e3, true, false, null, "x\ty\u00e9\ud83d\ude00"], "b": {}}"#,
            "[]",
            "0",
            r#""""#,
        ];
        for text in texts {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap().into_value(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_text_is_replaced() {
        let value = parse(b"\"a\xffb\\ud800c\\ud800\\u0041\"").unwrap().into_value();
        assert_eq!(value, json!("a\u{fffd}b\u{fffd}c\u{fffd}A"));
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = "[".repeat(1_000_000);
        let error = "invalid character '[' exceeded max depth";
        assert_eq!(parse(bomb.as_bytes()), Err(error.to_owned()));
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(parse(deep.as_bytes()).is_ok());
    }
}
