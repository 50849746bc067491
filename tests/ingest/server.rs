//! An ingest endpoint, written from the contract: it answers as it is told, and remembers everything.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Stored, acknowledged.
    Accept,
    /// All but the first line stored, and said so.
    Skip,
    /// A status with a header, nothing stored.
    Status(u16, &'static str),
    /// A redirect to another address.
    Redirect(SocketAddr),
    /// A login page.
    Html,
    /// Nothing stored, and the connection closed without a word.
    Drop,
    /// Stored, but the answer breaks off in the middle of its body.
    DieMidBody,
    /// No answer until the client gives up.
    Hang,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    /// What is answered when there is nothing more to say.
    default: Option<Answer>,
    requests: Vec<Request>,
    /// By content, as the server deduplicates: how often each event came to be stored.
    stored: BTreeMap<String, u32>,
}

#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server { address: listener.local_addr().unwrap(), state: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(connection.unwrap()));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1/events", self.address)
    }

    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.lock().unwrap().answers.extend(answers);
    }

    pub fn always(&self, answer: Answer) {
        self.state.lock().unwrap().default = Some(answer);
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }

    pub fn stored(&self) -> BTreeMap<String, u32> {
        self.state.lock().unwrap().stored.clone()
    }

    fn serve(&self, connection: TcpStream) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        while let Some(request) = read_request(&mut reader) {
            let answer = {
                let mut state = self.state.lock().unwrap();
                state.requests.push(request.clone());
                let answer = state.answers.pop_front().or(state.default.clone()).unwrap_or(Answer::Accept);
                let skipped = match answer {
                    Answer::Accept | Answer::DieMidBody => 0,
                    Answer::Skip => 1,
                    _ => usize::MAX,
                };
                for line in String::from_utf8(body(&request)).unwrap().lines().skip(skipped) {
                    serde_json::from_str::<Value>(line).expect("every line is an event");
                    *state.stored.entry(line.to_owned()).or_default() += 1;
                }
                answer
            };
            let lines = body(&request).iter().filter(|byte| **byte == b'\n').count();
            let ok = |body: String| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let text = match answer {
                Answer::Accept => ok(format!(r#"{{"accepted":{lines},"skipped":0}}"#)),
                Answer::Skip => ok(format!(r#"{{"accepted":{},"skipped":1}}"#, lines - 1)),
                Answer::Html => ok("<html><title>Log in</title></html>".to_owned()),
                Answer::Status(code, header) => {
                    format!("HTTP/1.1 {code} No\r\n{header}content-length: 0\r\n\r\n")
                }
                Answer::Redirect(to) => format!(
                    "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{to}/v1/events\r\ncontent-length: 0\r\n\r\n"
                ),
                Answer::DieMidBody => "HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"accepted\":".to_owned(),
                Answer::Drop => String::new(),
                Answer::Hang => {
                    // Until the client closes its end.
                    let _ = reader.read(&mut [0]);
                    return;
                }
            };
            let mut connection = &connection;
            let _ = connection.write_all(text.as_bytes());
            if matches!(answer, Answer::DieMidBody | Answer::Drop) {
                let _ = connection.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

/// The body as it was before compression.
pub fn body(request: &Request) -> Vec<u8> {
    match request.headers.get("content-encoding").map(String::as_str) {
        Some("gzip") => {
            let mut body = Vec::new();
            flate2::read::GzDecoder::new(&request.body[..]).read_to_end(&mut body).unwrap();
            body
        }
        None => request.body.clone(),
        Some(other) => panic!("unknown encoding {other}"),
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end();
        let Some((name, value)) = header.split_once(": ") else { break };
        assert_eq!(headers.insert(name.to_ascii_lowercase(), value.to_owned()), None, "{name} twice");
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: line.trim_end().to_owned(), headers, body })
}
