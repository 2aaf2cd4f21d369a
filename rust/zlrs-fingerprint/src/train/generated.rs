//! Generated wordings of one question: order desks and programming, which the data sets hardly hold.

use super::Sample;

/// Wordings with a verb `{v}` and a thing `{o}`; all wordings of one question are one label.
const QUESTIONS: &[(&str, &[&str])] = &[
    (
        "where",
        &[
            "where is {o}",
            "can you tell me where {o} is",
            "where can i find {o} right now",
            "what is the location of {o}",
            "i would like to know where {o} is",
            "could you look up where {o} is",
            "tell me where {o} is please",
            "locate {o} for me",
            "do you know where {o} is",
            "where has {o} got to",
        ],
    ),
    (
        "when",
        &[
            "when will {o} arrive",
            "can you tell me when {o} will arrive",
            "what day will {o} be here",
            "when is {o} going to arrive",
            "i want to know when {o} arrives",
            "when should i expect {o}",
            "when can i expect {o} to get here",
            "how soon will {o} arrive",
            "what is the arrival date of {o}",
            "tell me when {o} gets here",
        ],
    ),
    (
        "cancel",
        &[
            "how do i cancel {o}",
            "can i cancel {o}",
            "i want to cancel {o}",
            "please cancel {o} for me",
            "what do i do to cancel {o}",
            "how can i get {o} cancelled",
            "i would like {o} to be cancelled",
            "is it possible to cancel {o}",
            "cancel {o}",
            "help me with cancelling {o}",
        ],
    ),
    (
        "status",
        &[
            "what is the status of {o}",
            "can you check the status of {o}",
            "status of {o}",
            "how is {o} coming along",
            "i need the status of {o}",
            "give me an update on {o}",
            "is there any update on {o}",
            "check on {o} for me",
            "could you tell me the current status of {o}",
            "any news about {o}",
        ],
    ),
    (
        "cost",
        &[
            "how much does {o} cost",
            "what is the price of {o}",
            "how much is {o}",
            "what do i have to pay for {o}",
            "what does {o} cost",
            "tell me the price of {o}",
            "i want to know how much {o} costs",
            "price of {o}",
            "what would {o} cost me",
            "how expensive is {o}",
        ],
    ),
    (
        "return",
        &[
            "how do i return {o}",
            "i want to send {o} back",
            "can i return {o}",
            "what is the way to return {o}",
            "i would like to return {o}",
            "how can i send {o} back",
            "help me return {o}",
            "return {o}",
            "what do i need to do to send back {o}",
            "please tell me how to return {o}",
        ],
    ),
];

const THINGS: &[&str] = &[
    "my order #",
    "order #",
    "my parcel",
    "my package #",
    "the invoice #",
    "my ticket #",
    "my subscription",
    "my new phone",
    "the red jacket",
    "my refund",
    "my booking #",
    "my insurance policy",
];

const PROGRAMMING: &[(&str, &[&str])] = &[
    (
        "sort",
        &[
            "how do i sort a list in {l}",
            "sort a list with {l}",
            "what is the way to sort lists in {l}",
            "show me how to sort a list using {l}",
            "{l} code to sort a list",
            "i need to sort a list in {l}",
        ],
    ),
    (
        "reverse",
        &[
            "how do i reverse a string in {l}",
            "reverse a string with {l}",
            "write {l} code that reverses a string",
            "show me how to reverse a string in {l}",
            "string reversal in {l}",
        ],
    ),
    (
        "parse",
        &[
            "how can i parse json in {l}",
            "parse a json file with {l}",
            "{l} code to read json",
            "what library parses json in {l}",
            "reading json using {l}",
        ],
    ),
    (
        "loop",
        &[
            "how do i write a for loop in {l}",
            "for loop syntax in {l}",
            "write a loop in {l}",
            "what does a loop look like in {l}",
            "show me a {l} for loop",
        ],
    ),
    (
        "exception",
        &[
            "how do i catch an exception in {l}",
            "handle exceptions with {l}",
            "exception handling in {l}",
            "what is the syntax for catching errors in {l}",
            "catching an error in {l}",
        ],
    ),
    (
        "recursion",
        &[
            "write a recursive function in {l}",
            "how does recursion work in {l}",
            "show me recursion in {l}",
            "explain a recursive function with {l}",
        ],
    ),
    (
        "null",
        &[
            "why do i get a null pointer error in {l}",
            "what causes a null pointer exception in {l}",
            "fix a null pointer error in my {l} program",
            "my {l} code throws a null pointer error",
        ],
    ),
    (
        "regex",
        &[
            "how do i match a regular expression in {l}",
            "regex matching with {l}",
            "use a regular expression in {l}",
            "what is the regex syntax of {l}",
        ],
    ),
    (
        "compile",
        &[
            "how do i compile a {l} program",
            "compile {l} from the command line",
            "what command compiles {l} code",
            "building a {l} project",
        ],
    ),
    (
        "database",
        &[
            "how do i query a sql database from {l}",
            "run a sql query in {l}",
            "connect to a database with {l}",
            "{l} code to select rows from a table",
        ],
    ),
];

const LANGUAGES: &[&str] = &["python", "rust", "java", "javascript", "c", "go", "ruby", "c sharp"];

/// What labels of generated samples begin with.
pub const PREFIX: &str = "generated/";

/// Every generated sample.
pub fn samples() -> Vec<Sample> {
    let mut out = Vec::new();
    for (place, questions, fillings) in [("{o}", QUESTIONS, THINGS), ("{l}", PROGRAMMING, LANGUAGES)] {
        for (name, wordings) in questions {
            for filling in fillings {
                out.extend(wordings.iter().map(|wording| Sample {
                    text: wording.replace(place, filling),
                    label: format!("{PREFIX}{name}/{filling}"),
                }));
            }
        }
    }
    out
}

/// Politeness around a question; `{}` is the question.
pub const FRAMES: &[&str] = &[
    "{}",
    "{}",
    "{}",
    "please {}",
    "{} please",
    "hi {}",
    "hello {}",
    "{} thanks",
    "hey {}",
    "{} thank you",
    "excuse me {}",
    "i have a question {}",
    "quick question {}",
    "hi there {}",
];
