//! The protobuf wire format: fields of a message, without a copy.

/// The bytes of one message, and where they stand in the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    offset: usize,
    // One plain structure for all wire types: an enum would be built and taken apart in memory for each field.
    wire_type: WireType,
    bits: u64,
    bytes: Message<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WireType {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause} at byte {offset}")]
pub(crate) struct Malformed {
    pub(crate) cause: &'static str,
    pub(crate) offset: usize,
}

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Message { bytes, offset: 0 }
    }

    /// All fields in order. Ends after the first error: what follows it can't be told apart.
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields { rest: self }
    }

    /// The messages in all fields of one number.
    pub(crate) fn all(self, number: u32) -> impl Iterator<Item = Result<Message<'a>, Malformed>> {
        self.fields().filter_map(move |field| match field {
            Ok(field) if field.number == number => Some(field.message()),
            Ok(_) => None,
            Err(malformed) => Some(Err(malformed)),
        })
    }

    pub(crate) fn malformed(self, cause: &'static str) -> Malformed {
        Malformed { cause, offset: self.offset }
    }
}

impl<'a> Field<'a> {
    pub(crate) fn varint(self) -> Result<u64, Malformed> {
        self.expect(WireType::Varint, "a field of another wire type, expected a varint,")?;
        Ok(self.bits)
    }

    pub(crate) fn fixed64(self) -> Result<u64, Malformed> {
        self.expect(WireType::Fixed64, "a field of another wire type, expected 64 bits,")?;
        Ok(self.bits)
    }

    pub(crate) fn fixed32(self) -> Result<u32, Malformed> {
        self.expect(WireType::Fixed32, "a field of another wire type, expected 32 bits,")?;
        Ok(self.bits as u32)
    }

    pub(crate) fn message(self) -> Result<Message<'a>, Malformed> {
        self.expect(WireType::Bytes, "a field of another wire type, expected bytes,")?;
        Ok(self.bytes)
    }

    fn expect(self, wire_type: WireType, cause: &'static str) -> Result<(), Malformed> {
        if self.wire_type == wire_type { Ok(()) } else { Err(self.malformed(cause)) }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Malformed> {
        self.message().map(|message| message.bytes)
    }

    pub(crate) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.malformed("text that is not UTF-8"))
    }

    pub(crate) fn malformed(self, cause: &'static str) -> Malformed {
        Malformed { cause, offset: self.offset }
    }
}

/// See [`Message::fields`].
pub(crate) struct Fields<'a> {
    rest: Message<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    #[inline(always)]
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
    #[inline(always)]
    fn field(&mut self) -> Result<Field<'a>, Malformed> {
        let offset = self.rest.offset;
        let malformed = |cause| Malformed { cause, offset };
        let tag = u32::try_from(self.varint()?).map_err(|_| malformed("an impossible field number"))?;
        let number = tag >> 3;
        if number == 0 {
            return Err(malformed("field number 0"));
        }
        let mut field = Field { number, offset, wire_type: WireType::Varint, bits: 0, bytes: Message::new(&[]) };
        match tag & 7 {
            0 => field.bits = self.varint()?,
            1 => {
                field.wire_type = WireType::Fixed64;
                field.bits = u64::from_le_bytes(self.array()?);
            }
            2 => {
                field.wire_type = WireType::Bytes;
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                field.bytes = self.take(length).ok_or(malformed("a length past the end"))?;
            }
            5 => {
                field.wire_type = WireType::Fixed32;
                field.bits = u64::from(u32::from_le_bytes(self.array()?));
            }
            3 | 4 => return Err(malformed("a group, which no message here has,")),
            _ => return Err(malformed("an unknown wire type")),
        }
        Ok(field)
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Nearly all tags and lengths are one byte.
        match self.rest.bytes {
            [byte @ ..=0x7f, rest @ ..] => {
                self.rest = Message { bytes: rest, offset: self.rest.offset + 1 };
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
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

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((array, rest)) = self.rest.bytes.split_first_chunk() else {
            return Err(self.rest.malformed("a field that is cut off"));
        };
        self.rest = Message { bytes: rest, offset: self.rest.offset + N };
        Ok(*array)
    }

    #[inline(always)]
    fn take(&mut self, length: usize) -> Option<Message<'a>> {
        let (bytes, rest) = self.rest.bytes.split_at_checked(length)?;
        let taken = Message { bytes, offset: self.rest.offset };
        self.rest = Message { bytes: rest, offset: self.rest.offset + length };
        Some(taken)
    }
}
