"""Models whose work depends on the request, as text of graphs; requests for them as data sets have
them; and the same models in NumPy, in double precision.

A model takes one sentence, tree or lattice. Its weights are uniform in -0.1 .. 0.1, its embeddings
normal, all of fixed seeds.
"""
from .common import Counts, counts, most_alive
from .control import Running, Sums
from .encoders import Berxit, DeeBERT
from .grown import DRNN, StackRNN
from .lattices import LatticeGRU, LatticeLSTM
from .sequences import BiLSTM, BiLSTMCharacters, BiRNN, NestedRNN
from .text import Graph, Text, tensor
from .trees import MVRNN, TreeGRU, TreeLSTM, TreeLSTM2

MODELS = {"tree_lstm": TreeLSTM, "tree_lstm_2": TreeLSTM2, "tree_gru": TreeGRU, "mv_rnn": MVRNN,
          "bilstm": BiLSTM, "bilstm_characters": BiLSTMCharacters, "birnn": BiRNN,
          "nested_rnn": NestedRNN, "lattice_lstm": LatticeLSTM, "lattice_gru": LatticeGRU,
          "drnn": DRNN, "stack_rnn": StackRNN, "berxit": Berxit, "deebert": DeeBERT,
          "sums": Sums, "running": Running}
__all__ = ["Counts", "Graph", "MODELS", "Text", "TreeLSTM", "counts", "most_alive",
           "tensor"]
