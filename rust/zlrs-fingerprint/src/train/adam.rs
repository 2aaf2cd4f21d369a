//! Steps along the gradient: Adam (D. Kingma, J. Ba, 2015) with decoupled weight decay (I. Loshchilov, F. Hutter).

const KEEP_MEAN: f32 = 0.9;
const KEEP_SQUARE: f32 = 0.99;
const DECAY: f32 = 0.01;

pub struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    mean_left: f32,
    square_left: f32,
}

impl Adam {
    pub fn new(count: usize) -> Self {
        Self { mean: vec![0.0; count], square: vec![0.0; count], mean_left: 1.0, square_left: 1.0 }
    }

    pub fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32) {
        self.mean_left *= KEEP_MEAN;
        self.square_left *= KEEP_SQUARE;
        let (mean_scale, square_scale) = (1.0 / (1.0 - self.mean_left), 1.0 / (1.0 - self.square_left));
        let state = self.mean.iter_mut().zip(&mut self.square);
        for ((weight, slope), (mean, square)) in weights.iter_mut().zip(gradient).zip(state) {
            *mean = KEEP_MEAN * *mean + (1.0 - KEEP_MEAN) * slope;
            *square = KEEP_SQUARE * *square + (1.0 - KEEP_SQUARE) * slope * slope;
            let step = *mean * mean_scale / ((*square * square_scale).sqrt() + 1e-8);
            *weight -= rate * (step + DECAY * *weight);
        }
    }
}
