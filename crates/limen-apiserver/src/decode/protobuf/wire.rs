//! The encoding of protobuf: messages are items, each a number with some bytes.
//!
//! The errors are those of the code that is generated for Kubernetes' types.

/// An item of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item<'a> {
    /// The number of the field that it belongs to.
    pub(super) number: u32,
    content: Content<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Content<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    /// A group, which no type of Kubernetes has.
    Group,
    Fixed32,
}

impl<'a> Item<'a> {
    /// The bytes of a string, of bytes, of a message or of packed numbers.
    pub(super) fn bytes(self, field: &str) -> Result<&'a [u8], String> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong_type(field)),
        }
    }

    /// Text; what is not UTF-8 becomes the replacement character, as it does in JSON.
    pub(super) fn text(self, field: &str) -> Result<String, String> {
        self.bytes(field).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A whole number or a boolean.
    pub(super) fn varint(self, field: &str) -> Result<u64, String> {
        match self.content {
            Content::Varint(number) => Ok(number),
            _ => Err(self.wrong_type(field)),
        }
    }

    /// A floating-point number.
    pub(super) fn double(self, field: &str) -> Result<f64, String> {
        match self.content {
            Content::Fixed64(bytes) => Ok(f64::from_le_bytes(bytes)),
            _ => Err(self.wrong_type(field)),
        }
    }

    /// The items that may be packed into one: `double` tells of what kind they are.
    pub(super) fn unpacked(self, double: bool) -> Result<Vec<Self>, String> {
        let Content::Bytes(bytes) = self.content else { return Ok(vec![self]) };
        let mut rest = Rest(bytes);
        let mut items = Vec::new();
        while !rest.0.is_empty() {
            let content = if double {
                Content::Fixed64(rest.array()?)
            } else {
                Content::Varint(rest.varint()?)
            };
            items.push(Self { content, ..self });
        }
        Ok(items)
    }

    fn wrong_type(self, field: &str) -> String {
        let found = match self.content {
            Content::Varint(_) => 0,
            Content::Fixed64(_) => 1,
            Content::Bytes(_) => 2,
            Content::Group => 3,
            Content::Fixed32 => 5,
        };
        format!("proto: wrong wireType = {found} for field {field}")
    }
}

/// The items of a message. One that comes in several pieces is merged: it has the items of all.
pub(super) fn items<'a>(pieces: &[&'a [u8]], message: &str) -> Result<Vec<Item<'a>>, String> {
    let mut items = Vec::new();
    for piece in pieces {
        let mut rest = Rest(piece);
        while !rest.0.is_empty() {
            let key = rest.varint()?;
            if key & 7 == 4 {
                return Err(format!("proto: {message}: wiretype end group for non-group"));
            }
            items.push(rest.item(key, message)?);
        }
    }
    Ok(items)
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn item(&mut self, key: u64, message: &str) -> Result<Item<'a>, String> {
        // Numbers are 32 bits wide and signed; more is cut off.
        let number = (key >> 3) as i32;
        if number <= 0 {
            return Err(format!("proto: {message}: illegal tag {number} (wire type {key})"));
        }
        let content = match key & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(self.array()?),
            2 => {
                let length = self.varint()? as i64;
                let length = usize::try_from(length)
                    .map_err(|_| "proto: negative length found during unmarshaling")?;
                Content::Bytes(self.take(length)?)
            }
            3 => {
                self.skip_group()?;
                Content::Group
            }
            5 => {
                self.take(4)?;
                Content::Fixed32
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok(Item { number: number.unsigned_abs(), content })
    }

    /// Skips up to the end of a group whose start has been read; groups may hold groups.
    fn skip_group(&mut self) -> Result<(), String> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.varint()? & 7 {
                0 => {
                    self.varint()?;
                }
                1 => {
                    self.take(8)?;
                }
                2 => {
                    let length = self.varint()?;
                    self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
                }
                3 => depth += 1,
                4 => depth -= 1,
                5 => {
                    self.take(4)?;
                }
                other => return Err(format!("proto: illegal wireType {other}")),
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (array, rest) = self.0.split_first_chunk().ok_or("unexpected EOF")?;
        self.0 = rest;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("unexpected EOF")?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_is_refused_as_in_go() {
        let cases: [(&[u8], &str); 10] = [
            (b"\x08", "unexpected EOF"),
            (b"\x08\x80", "unexpected EOF"),
            (b"\x0a\x02a", "unexpected EOF"),
            (b"\x09\0\0", "unexpected EOF"),
            (b"\x0b\x08\x01", "unexpected EOF"),
            (b"\x00", "proto: Pod: illegal tag 0 (wire type 0)"),
            (b"\x04", "proto: Pod: wiretype end group for non-group"),
            (b"\x0e", "proto: illegal wireType 6"),
            (&[0xff; 12], "proto: integer overflow"),
            (
                b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                "proto: negative length found during unmarshaling",
            ),
        ];
        for (bytes, error) in cases {
            assert_eq!(items(&[bytes], "Pod"), Err(error.to_owned()), "{bytes:x?}");
        }
    }

    #[test]
    fn pieces_are_one_message() {
        let read = items(&[b"\x08\x05\x13\x08\x01\x14", b"\x1a\x01a\x25abcd"], "Pod").unwrap();
        let numbers: Vec<_> = read.iter().map(|item| item.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(read[0].varint("X"), Ok(5));
        assert_eq!(read[2].text("X"), Ok("a".to_owned()));
        assert_eq!(read[1].varint("X"), Err("proto: wrong wireType = 3 for field X".to_owned()));
        assert_eq!(read[3].bytes("X"), Err("proto: wrong wireType = 5 for field X".to_owned()));
    }
}
