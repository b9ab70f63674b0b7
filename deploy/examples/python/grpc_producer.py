#!/usr/bin/python3
"""Submits jobs to a Harbinger with the linked broker (Python, grpcio); prints the id of each.

    grpc_producer.py HOST:PORT JOB-TYPE PAYLOAD...

grpc_worker.py says where the stubs come from.
"""
import sys

import grpc
import harbinger_pb2 as pb
import harbinger_pb2_grpc as pb_grpc


def main(address, job_type, *payloads):
    stub = pb_grpc.BrokerStub(grpc.insecure_channel(address))
    me = stub.RegisterProducer(pb.RegisterProducerRequest(), timeout=5).producer_id
    for payload in payloads:
        job = pb.SubmitRequest(producer_id=me, payload=payload.encode(), headers={"job_type": job_type})
        print(stub.Submit(job, timeout=5).message_id)


if __name__ == "__main__":
    main(*sys.argv[1:])
