// A Kafka broker in memory, for the tests of the recipes with Kafka: one topic of eight partitions. Prints its address.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kafka TOPIC")
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, os.Args[1]))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	select {}
}
