//! Events for a person or the next program of a pipe.

use std::io::{self, ErrorKind, Write};

use super::{Sink, SinkError};

/// Standard output, one event a line. Lines of several of these in one process never mix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Sink for Stdout {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        deliver(&mut io::stdout().lock(), lines)
    }

    fn describe(&self) -> String {
        "standard output".to_owned()
    }
}

fn deliver(out: &mut impl Write, lines: &[u8]) -> Result<(), SinkError> {
    out.write_all(lines).and_then(|()| out.flush()).map_err(|source| match source.kind() {
        ErrorKind::BrokenPipe => SinkError::Closed,
        _ => SinkError::Stdout { source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_as_they_are() {
        let mut out = Vec::new();
        deliver(&mut out, b"{}\n{\"a\":1}\n").unwrap();
        assert_eq!(out, b"{}\n{\"a\":1}\n");
    }

    #[test]
    fn a_closed_pipe_is_told_from_other_failures() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        assert!(matches!(deliver(&mut writer, b"{}\n"), Err(SinkError::Closed)));
        let mut full = io::Cursor::new([0; 2]);
        let error = deliver(&mut full, b"{}\n").unwrap_err();
        assert!(matches!(error, SinkError::Stdout { .. }), "{error}");
    }
}
