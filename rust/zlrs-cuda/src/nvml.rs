//! Temperature and clocks of a GPU through the driver's management library, opened at run time.
//!
//! Three functions are called, so they are declared here: the library has a stable C interface, and the package links
//! nothing of NVIDIA's.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::Library;
use zlrs_engine::governor::{Sensor, SensorReading};

/// Where the library is, by the names that drivers give it.
const NAMES: [&str; 2] =
    if cfg!(windows) { ["nvml.dll", "nvml.dll"] } else { ["libnvidia-ml.so.1", "libnvidia-ml.so"] };

type Device = *mut c_void;
type Init = unsafe extern "C" fn() -> c_int;
type Handle = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type Ask = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;

/// `NVML_TEMPERATURE_GPU`
const TEMPERATURE_GPU: c_uint = 0;
/// `NVML_CLOCK_SM`
const CLOCK_SM: c_uint = 1;
/// `NVML_CLOCK_MEM`
const CLOCK_MEMORY: c_uint = 2;

/// One GPU's sensors.
pub struct Nvml {
    /// Functions below are its own.
    library: Library,
    device: Device,
    temperature: Ask,
    clock: Ask,
}

// SAFETY: the library may be used from any thread, and the device is a handle into it.
unsafe impl Send for Nvml {}

impl std::fmt::Debug for Nvml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nvml").finish_non_exhaustive()
    }
}

impl Nvml {
    /// The sensors of the GPU at a PCI address (`0000:01:00.0`); none where the library or the GPU is not there, or
    /// the library lacks a function.
    #[must_use]
    pub fn open(pci_address: &str) -> Option<Self> {
        // SAFETY: opens the driver's library and runs its initialisers, which is what loading a driver is.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        let address = CString::new(pci_address).ok()?;
        let mut device = std::ptr::null_mut();
        // SAFETY: the functions have these types in every version of the library that has these names; the address
        // ends in a zero byte and the handle is written.
        let (temperature, clock) = unsafe {
            let init = library.get::<Init>(b"nvmlInit_v2").ok()?;
            let handle = library.get::<Handle>(b"nvmlDeviceGetHandleByPciBusId_v2").ok()?;
            if init() != 0 || handle(address.as_ptr(), &raw mut device) != 0 {
                return None;
            }
            let temperature = *library.get::<Ask>(b"nvmlDeviceGetTemperature").ok()?;
            (temperature, *library.get::<Ask>(b"nvmlDeviceGetClockInfo").ok()?)
        };
        Some(Self { library, device, temperature, clock })
    }

    fn ask(&self, function: Ask, what: c_uint) -> Option<u32> {
        let mut value = 0;
        // SAFETY: the function is of the library, which is open, and writes one number.
        (unsafe { function(self.device, what, &raw mut value) } == 0).then_some(value)
    }
}

impl Sensor for Nvml {
    fn read(&mut self) -> SensorReading {
        SensorReading {
            temperature_c: self.ask(self.temperature, TEMPERATURE_GPU).map(|degrees| degrees as f32),
            clock_mhz: self.ask(self.clock, CLOCK_SM),
            memory_clock_mhz: self.ask(self.clock, CLOCK_MEMORY),
        }
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: nothing of the library is used afterwards by this value; it counts its users itself.
        unsafe {
            if let Ok(shutdown) = self.library.get::<Init>(b"nvmlShutdown") {
                shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_such_gpu_there_are_no_sensors() {
        assert!(Nvml::open("ffff:ff:1f.7").is_none());
        assert!(Nvml::open("a\0b").is_none());
    }
}
