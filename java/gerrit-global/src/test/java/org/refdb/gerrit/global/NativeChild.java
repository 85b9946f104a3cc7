package org.refdb.gerrit.global;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;
import org.eclipse.jgit.lib.ObjectId;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** A node in a process of its own, which tests kill. It sets one ref, or creates many, and prints the result. */
final class NativeChild {
  private NativeChild() {}

  /**
   * The words: address of etcd, prefix, name of the node, folder, ref, id, and optionally the number of refs to
   * create below that ref.
   */
  public static void main(String[] words) throws Exception {
    GlobalRefs refs = new GlobalRefs(Nodes.settings(words[0], words[1]), NodeName.of(words[2]));
    try (NativeNode node = new NativeNode(Path.of(words[3]), refs)) {
      ObjectId id = ObjectId.fromString(words[5]);
      if (words.length == 6) {
        System.out.println(node.set(words[4], id));
      } else {
        System.out.println(node.create(true, below(words[4], Integer.parseInt(words[6])), id).getFirst().getResult());
      }
    }
    System.exit(0);
  }

  static List<String> below(String ref, int count) {
    return IntStream.range(0, count).mapToObj(i -> ref + '/' + i).sorted().toList();
  }

  static Process start(String... words) throws java.io.IOException {
    return start(NativeChild.class, words);
  }

  /** Runs the main method of a class in another process. */
  static Process start(Class<?> main, String... words) throws java.io.IOException {
    List<String> command = new java.util.ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin/java").toString());
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(List.of(words));
    return new ProcessBuilder(command).redirectErrorStream(true).start();
  }
}
