//! The protobuf wire format: fields of a message, without a copy.

/// The bytes of one message, and where they stand in the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    offset: usize,
    content: Content<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(Message<'a>),
    Fixed32(u32),
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause} at byte {offset}")]
pub(super) struct Malformed {
    pub(super) cause: &'static str,
    pub(super) offset: usize,
}

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Message { bytes, offset: 0 }
    }

    /// All fields in order. Ends after the first error: what follows it can't be told apart.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { rest: self }
    }

    /// The messages in all fields of one number.
    pub(super) fn all(self, number: u32) -> impl Iterator<Item = Result<Message<'a>, Malformed>> {
        self.fields().filter_map(move |field| match field {
            Ok(field) if field.number == number => Some(field.message()),
            Ok(_) => None,
            Err(malformed) => Some(Err(malformed)),
        })
    }

    pub(super) fn malformed(self, cause: &'static str) -> Malformed {
        Malformed { cause, offset: self.offset }
    }
}

impl<'a> Field<'a> {
    pub(super) fn varint(self) -> Result<u64, Malformed> {
        match self.content {
            Content::Varint(number) => Ok(number),
            _ => Err(self.malformed("a field of another wire type, expected a varint,")),
        }
    }

    pub(super) fn fixed64(self) -> Result<u64, Malformed> {
        match self.content {
            Content::Fixed64(number) => Ok(number),
            _ => Err(self.malformed("a field of another wire type, expected 64 bits,")),
        }
    }

    pub(super) fn fixed32(self) -> Result<u32, Malformed> {
        match self.content {
            Content::Fixed32(number) => Ok(number),
            _ => Err(self.malformed("a field of another wire type, expected 32 bits,")),
        }
    }

    pub(super) fn message(self) -> Result<Message<'a>, Malformed> {
        match self.content {
            Content::Bytes(message) => Ok(message),
            _ => Err(self.malformed("a field of another wire type, expected bytes,")),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        self.message().map(|message| message.bytes)
    }

    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.malformed("text that is not UTF-8"))
    }

    pub(super) fn malformed(self, cause: &'static str) -> Malformed {
        Malformed { cause, offset: self.offset }
    }
}

/// See [`Message::fields`].
pub(super) struct Fields<'a> {
    rest: Message<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.bytes.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest.bytes = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>, Malformed> {
        let offset = self.rest.offset;
        let malformed = |cause| Malformed { cause, offset };
        let tag = u32::try_from(self.varint()?).map_err(|_| malformed("an impossible field number"))?;
        let number = tag >> 3;
        if number == 0 {
            return Err(malformed("field number 0"));
        }
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                Content::Bytes(self.take(length).ok_or(malformed("a length past the end"))?)
            }
            5 => Content::Fixed32(u32::from_le_bytes(self.array()?)),
            3 | 4 => return Err(malformed("a group, which OTLP does not have,")),
            _ => return Err(malformed("an unknown wire type")),
        };
        Ok(Field { number, offset, content })
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let start = self.rest;
        let mut number = 0;
        // Ten groups of seven bits hold 64; the last may add one bit only.
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            if shift == 63 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(start.malformed("a varint of more than 64 bits"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((array, rest)) = self.rest.bytes.split_first_chunk() else {
            return Err(self.rest.malformed("a field that is cut off"));
        };
        self.rest = Message { bytes: rest, offset: self.rest.offset + N };
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Option<Message<'a>> {
        let (bytes, rest) = self.rest.bytes.split_at_checked(length)?;
        let taken = Message { bytes, offset: self.rest.offset };
        self.rest = Message { bytes: rest, offset: self.rest.offset + length };
        Some(taken)
    }
}
