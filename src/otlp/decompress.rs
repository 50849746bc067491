//! gzip and zstd, with a cap on what comes out.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// gzip, of one or many members.
    Gzip,
    /// zstd, of one or many frames.
    Zstd,
}

/// Why bytes could not be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecompressError {
    /// More comes out than the cap allows.
    #[error("more than {cap} bytes after decompression; send smaller batches")]
    TooLarge {
        /// The cap.
        cap: usize,
    },
    /// The caller had no room for what came out. Later there may be.
    #[error("more bytes of requests are unpacked than there is room for; try again later")]
    NoRoom,
    /// A zstd frame that makes its reader keep a large window.
    #[error("a zstd window of more than 8 MiB; compress at a level below 20 and without `--long`")]
    WindowTooLarge,
    /// The bytes are damaged, cut, or something else.
    #[error("no whole {encoding}: {cause}; check that the body is whole and is what its content encoding says")]
    Corrupt {
        /// `gzip` or `zstd`.
        encoding: &'static str,
        /// What the decoder said.
        cause: String,
    },
}

impl Encoding {
    /// The encoding that the first bytes tell, if any.
    pub fn sniff(bytes: &[u8]) -> Option<Encoding> {
        match bytes {
            [0x1f, 0x8b, 0x08, ..] => Some(Encoding::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Encoding::Zstd),
            _ => None,
        }
    }

    /// The encoding of a `Content-Encoding` or `grpc-encoding`; `None` if it is not one of the two.
    pub fn from_name(name: &str) -> Option<Encoding> {
        [Encoding::Gzip, Encoding::Zstd].into_iter().find(|encoding| name.trim().eq_ignore_ascii_case(encoding.name()))
    }

    /// `gzip` or `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Zstd => "zstd",
        }
    }
}

/// Unpacks all members or frames; together they may give `cap` bytes. It stops at the first byte beyond, so that a bomb
/// costs no more than the cap (and a zstd window of at most 8 MiB).
///
/// # Errors
///
/// See [`DecompressError`]: none of them goes away by sending the same bytes again.
pub fn decompress(bytes: &[u8], encoding: Encoding, cap: usize) -> Result<Vec<u8>, DecompressError> {
    decompress_into_room(bytes, encoding, cap, |_| true)
}

/// Unpacks as [`decompress`] does, and asks `take_room` before it takes memory, for so many more bytes.
///
/// # Errors
///
/// See [`DecompressError`]; [`DecompressError::NoRoom`] if there was none.
pub(crate) fn decompress_into_room(
    bytes: &[u8],
    encoding: Encoding,
    cap: usize,
    take_room: impl FnMut(usize) -> bool,
) -> Result<Vec<u8>, DecompressError> {
    let result = match encoding {
        Encoding::Gzip => read_capped(MultiGzDecoder::new(bytes), bytes.len(), cap, take_room),
        Encoding::Zstd => zstd_decoder(bytes).and_then(|decoder| read_capped(decoder, bytes.len(), cap, take_room)),
    };
    match result {
        Ok(None) => Err(DecompressError::NoRoom),
        Ok(Some(unpacked)) if unpacked.len() > cap => Err(DecompressError::TooLarge { cap }),
        Ok(Some(unpacked)) => Ok(unpacked),
        // zstd-safe gives the library's texts alone.
        Err(error) if error.to_string().contains("requires too much memory") => Err(DecompressError::WindowTooLarge),
        Err(error) => Err(DecompressError::Corrupt { encoding: encoding.name(), cause: error.to_string() }),
    }
}

/// 8 MiB: what RFC 8878 asks every reader to take, and `zstd -19` needs at most.
const ZSTD_WINDOW_LOG: u32 = 23;

fn zstd_decoder<R: BufRead>(bytes: R) -> io::Result<zstd::Decoder<'static, R>> {
    let mut decoder = zstd::Decoder::with_buffer(bytes)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

/// Reads at most one byte more than the cap, and takes no more memory than that; `None` if there is no room.
fn read_capped(
    reader: impl Read,
    packed: usize,
    cap: usize,
    mut take_room: impl FnMut(usize) -> bool,
) -> io::Result<Option<Vec<u8>>> {
    // Text shrinks to a fifth or less; what is announced in the bytes themselves is not to be trusted.
    let mut room = packed.saturating_mul(4).min(cap);
    if !take_room(room) {
        return Ok(None);
    }
    let mut unpacked = Vec::with_capacity(room);
    let mut reader = reader.take((cap as u64).saturating_add(1));
    let mut buffer = [0; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(Some(unpacked)),
            Ok(count) => {
                let needed = unpacked.len() + count;
                if needed > room {
                    // Doubled, but never past the cap.
                    let better = needed.max(room.saturating_mul(2).min(cap.saturating_add(1)));
                    if !take_room(better - room) {
                        return Ok(None);
                    }
                    unpacked.reserve_exact(better - unpacked.len());
                    room = better;
                }
                unpacked.extend_from_slice(buffer.get(..count).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
