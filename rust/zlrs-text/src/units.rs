//! Units of measure: names in English and Chinese, dimension, exact factor to the dimension's base unit.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::decimal::Decimal;

/// A unit: its symbol, what it measures and how many base units it holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Unit {
    /// The canonical symbol, for example `km`.
    pub symbol: &'static str,
    /// What is measured, for example `length`. Units of one dimension can be compared.
    pub dimension: &'static str,
    factor: &'static str,
    names: &'static [&'static str],
}

impl Unit {
    /// `amount` of this unit in the base unit of its dimension, exactly.
    #[must_use]
    pub fn to_base(&self, amount: &Decimal) -> Decimal {
        Decimal::parse(self.factor).map_or_else(|| amount.clone(), |factor| amount.times(&factor))
    }

    /// The unit that `name` means. Symbols are case-sensitive (`mW`, `MW`), names are not (`Metres`).
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Unit> {
        BY_NAME
            .get(name)
            .or_else(|| {
                let lower = name.to_lowercase();
                // A name in full or one that no unit spells in another case.
                (lower.chars().count() > 3).then(|| BY_NAME.get(lower.as_str())).flatten()
            })
            .copied()
    }
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static Unit>> = LazyLock::new(|| {
    UNITS.iter().flat_map(|unit| unit.names.iter().map(move |name| (*name, unit))).collect()
});

/// All names of all units, longest first, for patterns.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = UNITS.iter().flat_map(|unit| unit.names.iter().copied()).collect();
    names.sort_by_key(|name| (std::cmp::Reverse(name.len()), *name));
    names
}

macro_rules! units {
    ($($symbol:literal $dimension:literal $factor:literal $names:expr;)*) => {
        &[$(Unit { symbol: $symbol, dimension: $dimension, factor: $factor, names: &$names }),*]
    };
}

/// Temperatures have a zero of their own: each scale is a dimension. So are months, which have no fixed length, and
/// percentage points, which are no percentage. KB is 1000 bytes here and 1024 elsewhere: a symbol of its own.
static UNITS: &[Unit] = units![
    "m" "length" "1" ["m", "meter", "meters", "metre", "metres", "米"];
    "km" "length" "1000" ["km", "kilometer", "kilometers", "kilometre", "kilometres", "公里", "千米"];
    "cm" "length" "0.01" ["cm", "centimeter", "centimeters", "centimetre", "centimetres", "厘米", "公分"];
    "mm" "length" "0.001" ["mm", "millimeter", "millimeters", "millimetre", "millimetres", "毫米"];
    "in" "length" "0.0254" ["inch", "inches", "英寸"];
    "ft" "length" "0.3048" ["ft", "foot", "feet", "英尺"];
    "yd" "length" "0.9144" ["yd", "yard", "yards"];
    "mi" "length" "1609.344" ["mi", "mile", "miles", "英里"];
    "li" "length" "500" ["里"];
    "m²" "area" "1" ["m²", "sqm", "square meters", "square metres", "square meter", "square metre", "平方米"];
    "km²" "area" "1000000" ["km²", "square kilometers", "square kilometres", "平方公里"];
    "ft²" "area" "0.09290304" ["ft²", "sqft", "square feet", "square foot", "平方英尺"];
    "ha" "area" "10000" ["ha", "hectare", "hectares", "公顷"];
    "acre" "area" "4046.8564224" ["acre", "acres", "英亩"];
    "m³" "volume" "1000" ["m³", "cubic meters", "cubic metres", "立方米"];
    "L" "volume" "1" ["l", "L", "liter", "liters", "litre", "litres", "升"];
    "mL" "volume" "0.001" ["ml", "mL", "milliliter", "milliliters", "millilitre", "millilitres", "毫升"];
    "gal" "volume" "3.785411784" ["gal", "gallon", "gallons", "加仑"];
    "g" "mass" "1" ["g", "gram", "grams", "gramme", "grammes", "克"];
    "kg" "mass" "1000" ["kg", "kilogram", "kilograms", "kilo", "kilos", "公斤", "千克"];
    "mg" "mass" "0.001" ["mg", "milligram", "milligrams", "毫克"];
    "jin" "mass" "500" ["斤"];
    "liang" "mass" "50" ["两"];
    "t" "mass" "1000000" ["tonne", "tonnes", "吨"];
    "lb" "mass" "453.59237" ["lb", "lbs", "磅"];
    "pounds" "pounds" "1" ["pound", "pounds"];
    "oz" "mass" "28.349523125" ["oz", "ounce", "ounces", "盎司"];
    "s" "duration" "1" ["s", "sec", "secs", "second", "seconds", "秒", "秒钟"];
    "ms" "duration" "0.001" ["ms", "millisecond", "milliseconds", "毫秒"];
    "min" "duration" "60" ["min", "mins", "minute", "minutes", "分钟"];
    "h" "duration" "3600" ["h", "hr", "hrs", "hour", "hours", "小时", "个小时", "钟头"];
    "day" "duration" "86400" ["day", "days", "天"];
    "working day" "working days" "1" ["working day", "working days", "business day", "business days", "工作日", "个工作日"];
    "week" "duration" "604800" ["week", "weeks", "周", "个星期", "星期", "礼拜"];
    "month" "months" "1" ["month", "months", "个月"];
    "year" "months" "12" ["yr", "yrs", "year", "years", "年"];
    "B" "data" "1" ["B", "byte", "bytes", "字节"];
    "kB" "data" "1000" ["kB", "kilobyte", "kilobytes"];
    "KB" "data" "1000" ["KB"];
    "MB" "data" "1000000" ["MB", "megabyte", "megabytes"];
    "GB" "data" "1000000000" ["GB", "gigabyte", "gigabytes"];
    "TB" "data" "1000000000000" ["TB", "terabyte", "terabytes"];
    "KiB" "data" "1024" ["KiB", "kibibytes"];
    "MiB" "data" "1048576" ["MiB", "mebibytes"];
    "GiB" "data" "1073741824" ["GiB", "gibibytes"];
    "Mb" "bits" "1000000" ["Mb", "Mbit", "megabits"];
    "Gb" "bits" "1000000000" ["Gb", "Gbit", "gigabits"];
    "Mbps" "bit rate" "1000000" ["Mbps", "Mbit/s", "Mb/s"];
    "Gbps" "bit rate" "1000000000" ["Gbps", "Gbit/s", "Gb/s"];
    "MB/s" "byte rate" "1000000" ["MB/s"];
    "°C" "celsius" "1" ["°C", "℃", "degrees celsius", "摄氏度"];
    "°F" "fahrenheit" "1" ["°F", "℉", "degrees fahrenheit", "华氏度"];
    "K" "kelvin" "1" ["K", "kelvin"];
    "°" "angle" "1" ["°", "degree", "degrees", "度"];
    "m/s" "speed" "3600" ["m/s", "metres per second", "meters per second", "米每秒"];
    "km/h" "speed" "1000" ["km/h", "kmh", "kph", "公里每小时"];
    "mph" "speed" "1609.344" ["mph", "miles per hour"];
    "W" "power" "1" ["W", "watt", "watts", "瓦"];
    "kW" "power" "1000" ["kW", "kilowatt", "kilowatts", "千瓦"];
    "MW" "power" "1000000" ["MW", "megawatt", "megawatts", "兆瓦"];
    "mW" "power" "0.001" ["mW", "milliwatt", "milliwatts", "毫瓦"];
    "kWh" "energy" "1000" ["kWh", "千瓦时", "度电"];
    "V" "voltage" "1" ["V", "volt", "volts", "伏"];
    "A" "current" "1" ["A", "amp", "amps", "安培"];
    "mA" "current" "0.001" ["mA", "milliamps", "毫安"];
    "mAh" "charge" "0.001" ["mAh", "毫安时"];
    "Hz" "frequency" "1" ["Hz", "hertz", "赫兹"];
    "kHz" "frequency" "1000" ["kHz", "千赫"];
    "MHz" "frequency" "1000000" ["MHz", "兆赫"];
    "GHz" "frequency" "1000000000" ["GHz", "吉赫"];
    "pp" "percentage points" "1" ["percentage point", "percentage points", "个百分点", "百分点"];
    "bp" "percentage points" "0.01" ["basis point", "basis points", "个基点", "基点"];
    "px" "pixels" "1" ["px", "pixel", "pixels", "像素"];
    "kcal" "heat" "1" ["kcal", "千卡", "大卡"];
];
